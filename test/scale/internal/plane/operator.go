package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Operator is a running manager.
type Operator struct {
	// Log is the path of what it wrote to its standard error.
	Log string
	// Started is when the process was started.
	Started time.Time

	command *exec.Cmd
	health  string
	metrics string
	gone    chan struct{} // closed when the process has ended
}

// StartOperator builds cmd/manager, starts it with leader election as
// config/manager does, logged in as the operator's service account, and returns
// when /readyz says that it works. More arguments come after those; they may
// repeat a flag.
func (p *Plane) StartOperator(ctx context.Context, args ...string) (*Operator, error) {
	if err := p.buildManager(ctx); err != nil {
		return nil, err
	}
	kubeconfig, err := p.operatorKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	o := &Operator{gone: make(chan struct{})}
	if o.health, err = freeAddress(); err != nil {
		return nil, err
	}
	if o.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(p.dir, "operator-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	o.Log = log.Name()
	o.command = exec.Command(p.manager, append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect", "--leader-election-namespace=" + SystemNamespace,
		"--health-probe-bind-address=" + o.health, "--metrics-bind-address=" + o.metrics,
	}, args...)...)
	o.command.Stderr = log
	o.Started = time.Now()
	if err := o.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = o.command.Wait()
		close(o.gone)
	}()
	p.stops = append(p.stops, o.Kill)
	if err := o.ready(ctx); err != nil {
		o.Kill()
		return nil, err
	}
	return o, nil
}

// buildManager builds the binary once.
func (p *Plane) buildManager(ctx context.Context) error {
	if p.manager != "" {
		return nil
	}
	p.say("build the manager")
	binary := filepath.Join(p.dir, "manager")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/manager")
	command.Dir = p.root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build cmd/manager: %w\n%s", err, output)
	}
	p.manager = binary
	return nil
}

// operatorKubeconfig logs in as the operator's service account for an hour.
func (p *Plane) operatorKubeconfig(ctx context.Context) (string, error) {
	admin, err := kubernetes.NewForConfig(p.Admin)
	if err != nil {
		return "", err
	}
	token, err := admin.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, "timeout-operator",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("a token for the operator: %w", err)
	}
	const name = "scale"
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: p.Server(), CertificateAuthorityData: p.Admin.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	path := filepath.Join(p.dir, "operator.kubeconfig")
	return path, clientcmd.WriteToFile(config, path)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (o *Operator) ready(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		select {
		case <-o.gone:
			return false, errors.New("the operator ended")
		default:
		}
		_, last = get("http://" + o.health + "/readyz")
		return last == nil, nil
	})
	if err != nil {
		log, _ := os.ReadFile(o.Log)
		return fmt.Errorf("the operator does not become ready: %w\n%s", errors.Join(err, last), log)
	}
	return nil
}

// Metrics returns the operator's metrics in Prometheus' text format.
func (o *Operator) Metrics() (string, error) { return get("http://" + o.metrics + "/metrics") }

func get(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), err
}

// Stop asks the operator to end, as the kubelet does, and waits until it has.
func (o *Operator) Stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	<-o.gone
}

// Kill ends the operator at once. A second call does nothing.
func (o *Operator) Kill() {
	_ = o.command.Process.Kill()
	<-o.gone
}
