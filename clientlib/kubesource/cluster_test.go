package kubesource

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// patience bounds every wait for the control plane. It measures nothing.
const patience = 90 * time.Second

const repository = "../.."

// real is the control plane that tests against a real API server share.
var real = sync.OnceValues(startCluster)

var started *cluster

func TestMain(m *testing.M) {
	var said lockedBuffer
	klog.LogToStderr(false)
	klog.SetOutput(&said)
	code := m.Run()
	klog.Flush()
	if started != nil {
		if err := started.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}
	if text := said.String(); text != "" {
		fmt.Fprintln(os.Stderr, "client-go logged:\n"+text)
		code = 1
	}
	if err := goleak.Find(goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// cluster is etcd and an API server, run by hack/cluster.
type cluster struct {
	command    *exec.Cmd
	orders     io.WriteCloser
	answers    *bufio.Scanner
	log        lockedBuffer
	assets     string
	dir        string
	kubeconfig string
	admin      *rest.Config
}

func startCluster() (*cluster, error) {
	c := &cluster{assets: os.Getenv("KUBEBUILDER_ASSETS")}
	if c.assets == "" {
		c.assets = filepath.Join(repository, "bin/k8s")
	}
	var err error
	if c.assets, err = filepath.Abs(c.assets); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "kubesource-"); err != nil {
		return nil, err
	}
	program := filepath.Join(c.dir, "cluster")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Dir = filepath.Join(repository, "hack/cluster")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build hack/cluster: %w\n%s", err, out)
	}
	c.command = exec.Command(program, "up", "--control", "--without-controller-manager", "--dir", filepath.Join(c.dir, "state"))
	c.command.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+c.assets)
	c.command.Stderr = &c.log
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.orders, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	started = c
	c.answers = bufio.NewScanner(out)
	for c.answers.Scan() {
		if line := c.answers.Text(); line != "ready" {
			c.kubeconfig = line
			continue
		}
		c.admin, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig)
		return c, err
	}
	return nil, fmt.Errorf("the control plane did not start:\n%s", c.log.String())
}

func (c *cluster) stop() error {
	_ = c.orders.Close()
	err := c.command.Wait()
	return errors.Join(err, os.RemoveAll(c.dir))
}

// cluster returns the shared control plane.
func theCluster(t testing.TB) *cluster {
	t.Helper()
	c, err := real()
	must(t, err)
	return c
}

// order makes hack/cluster do something and returns when it is done.
func (c *cluster) order(t testing.TB, order string) time.Time {
	t.Helper()
	_, err := io.WriteString(c.orders, order+"\n")
	must(t, err)
	if !c.answers.Scan() || c.answers.Text() != "ok "+order {
		t.Fatalf("%s: %q\n%s", order, c.answers.Text(), c.log.String())
	}
	return time.Now()
}

// kubectl runs as the administrator.
func (c *cluster) kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := c.tryKubectl(stdin, args...)
	must(t, err)
	return out
}

func (c *cluster) tryKubectl(stdin string, args ...string) (string, error) {
	command := exec.Command(filepath.Join(c.assets, "kubectl"), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// namespaces counts them, since a test may run several times.
var namespaces atomic.Int64

// newNamespace makes a namespace with the service account of the sample, and its
// rights if they are wanted.
func (c *cluster) newNamespace(t testing.TB, allowed bool) string {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	name = fmt.Sprintf("%s-%d", name[:min(len(name), 50)], namespaces.Add(1))
	c.kubectl(t, "", "create", "namespace", name)
	c.kubectl(t, "", "-n", name, "create", "serviceaccount", "checkout")
	if allowed {
		c.allow(t, name)
	}
	return name
}

// allow applies the sample to a namespace.
func (c *cluster) allow(t testing.TB, namespace string) {
	t.Helper()
	sample, err := os.ReadFile(filepath.Join(repository, "config/samples/api-watch-rbac.yaml"))
	must(t, err)
	c.kubectl(t, strings.ReplaceAll(string(sample), "namespace: shop", "namespace: "+namespace), "apply", "-f", "-")
}

// store writes a document and returns when the API server has it.
func (c *cluster) store(t testing.TB, namespace, name, document string) time.Time {
	t.Helper()
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"data":     map[string]string{"policy.json": document},
	})
	must(t, err)
	c.kubectl(t, string(manifest), "apply", "--server-side", "-f", "-")
	return time.Now()
}

// compact makes etcd forget all versions but the present one.
func (c *cluster) compact(t testing.TB) {
	t.Helper()
	socket := filepath.Join(c.dir, "state/etcd.sock")
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	ask := func(path, body string) []byte {
		response, err := (&http.Client{Transport: transport}).Post("http://etcd/v3/kv/"+path, "application/json", strings.NewReader(body))
		must(t, err)
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		must(t, err)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("etcd answers %s to %s: %s", response.Status, path, answer)
		}
		return answer
	}
	var at struct {
		Header struct{ Revision string }
	}
	must(t, json.Unmarshal(ask("range", `{"key":"AA=="}`), &at))
	ask("compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, at.Header.Revision))
}

// pod is the configuration of a process in a pod, whose token is in a file.
type pod struct {
	config *rest.Config
	proxy  *proxy
	token  string
}

// newPod makes a pod's view of the API server, through a proxy that can fail.
func (c *cluster) newPod(t testing.TB, namespace string) *pod {
	t.Helper()
	p := &pod{proxy: newProxy(t, strings.TrimPrefix(c.admin.Host, "https://")), token: filepath.Join(t.TempDir(), "token")}
	p.rotate(t, c.kubectl(t, "", "-n", namespace, "create", "token", "checkout"))
	p.config = &rest.Config{
		Host:            "https://" + p.proxy.listener.Addr().String(),
		BearerTokenFile: p.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.admin.CAData, CAFile: c.admin.CAFile},
	}
	return p
}

// rotate replaces the token, as the kubelet does.
func (p *pod) rotate(t testing.TB, token string) {
	t.Helper()
	must(t, os.WriteFile(p.token+"~", []byte(token), 0o600))
	must(t, os.Rename(p.token+"~", p.token))
}

// proxy passes connections on.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
}

// link is one connection; a swallowed one takes bytes and gives none.
type link struct {
	here, there net.Conn
	swallow     chan struct{}
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, target: target, links: map[*link]struct{}{}}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		here, err := p.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", p.target)
		if err != nil {
			here.Close()
			continue
		}
		k := &link{here, there, make(chan struct{})}
		p.mu.Lock()
		p.links[k] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { k.pass(there, here); p.forget(k) })
		p.running.Go(func() { k.pass(here, there); p.forget(k) })
	}
}

// pass copies until an end closes, and drops what it reads once swallowing.
func (k *link) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-k.swallow:
			n = 0
		default:
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) forget(k *link) {
	k.here.Close()
	k.there.Close()
	p.mu.Lock()
	delete(p.links, k)
	p.mu.Unlock()
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.here.Close()
		k.there.Close()
	}
}

// swallow makes the connections there are black holes; new ones work.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		close(k.swallow)
	}
	clear(p.links)
}
