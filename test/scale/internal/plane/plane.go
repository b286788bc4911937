package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// SystemNamespace is where config/default puts the operator.
const SystemNamespace = "timeout-system"

// Options of a Plane. The zero value is right inside of the checkout.
type Options struct {
	// Assets is the folder with etcd, kube-apiserver, kubectl and
	// kube-controller-manager. Empty means KUBEBUILDER_ASSETS, then bin/k8s of
	// the checkout.
	Assets string
	// Controllers of kube-controller-manager to run, such as
	// garbage-collector-controller. None means that it does not run.
	Controllers []string
	// Progress gets a line for people per step. Nil means none.
	Progress io.Writer
}

// Plane is a running control plane with the operator's manifests installed.
// Close it.
type Plane struct {
	// Admin may do everything and is never throttled.
	Admin *rest.Config
	// Client is the administrator's; it does not cache.
	Client client.Client
	// Kubeconfig is the path of the administrator's.
	Kubeconfig string

	options   Options
	root, dir string
	env       *envtest.Environment
	audit     *audit
	workload  *http.Client
	manager   string // the binary, once it is built
	stops     []func()
}

// Start starts etcd and the API server and applies config/default. When it
// fails nothing is left behind.
func Start(ctx context.Context, options Options) (*Plane, error) {
	p := &Plane{options: options}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) (err error) {
	// Libraries of this process have nothing to say.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if p.root, err = repository(); err != nil {
		return err
	}
	if p.options.Assets == "" {
		p.options.Assets = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if p.options.Assets == "" {
		p.options.Assets = filepath.Join(p.root, "bin", "k8s")
	}
	if _, err := os.Stat(p.asset("kube-apiserver")); err != nil {
		return fmt.Errorf("%w (set KUBEBUILDER_ASSETS to a folder with the binaries, or build them with make cluster)", err)
	}
	if p.dir, err = os.MkdirTemp("", "scale-"); err != nil {
		return err
	}
	p.say("start the control plane")
	if err := p.startEnvironment(); err != nil {
		return err
	}
	p.Admin.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if p.Client, err = client.New(p.Admin, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if p.workload, err = rest.HTTPClientFor(p.Admin); err != nil {
		return err
	}
	p.Kubeconfig = filepath.Join(p.dir, "kubeconfig")
	if err := os.WriteFile(p.Kubeconfig, p.env.KubeConfig, 0o600); err != nil {
		return err
	}
	if _, err := p.Kubectl(ctx, "apply", "-k", filepath.Join(p.root, "config", "default")); err != nil {
		return err
	}
	if _, err := p.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return err
	}
	// Only now: the garbage collector looks for new kinds every 30 s.
	return p.startControllers()
}

func (p *Plane) startEnvironment() (err error) {
	p.audit = &audit{path: filepath.Join(p.dir, "audit.log")}
	policy := filepath.Join(p.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	p.env = &envtest.Environment{
		BinaryAssetsDirectory:    p.options.Assets,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	p.env.ControlPlane.GetAPIServer().Configure().
		Append("audit-policy-file", policy).
		Append("audit-log-path", p.audit.path)
	p.Admin, err = p.env.Start()
	return err
}

func (p *Plane) startControllers() error {
	if len(p.options.Controllers) == 0 {
		return nil
	}
	command := exec.Command(p.asset("kube-controller-manager"), "--kubeconfig="+p.Kubeconfig, "--leader-elect=false",
		"--secure-port=0", "--controllers="+strings.Join(p.options.Controllers, ","),
		// It is not what is measured: by default it would collect 20 objects a second.
		"--kube-api-qps=500", "--kube-api-burst=1000")
	if err := command.Start(); err != nil {
		return err
	}
	p.stops = append(p.stops, func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return nil
}

// Close stops what is left of the operator and the control plane, and deletes
// their files.
func (p *Plane) Close() error {
	for len(p.stops) > 0 {
		last := len(p.stops) - 1
		stop := p.stops[last]
		p.stops = p.stops[:last]
		stop()
	}
	var err error
	if p.env != nil {
		err = p.env.Stop()
		p.env = nil
	}
	if p.workload != nil {
		p.workload.CloseIdleConnections()
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// Kubectl runs kubectl as administrator and returns what it prints.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, p.asset("kubectl"), append([]string{"--kubeconfig", p.Kubeconfig}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Server is the URL of the API server, without a slash at its end.
func (p *Plane) Server() string {
	host := strings.TrimRight(p.Admin.Host, "/")
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	return host
}

func (p *Plane) asset(name string) string { return filepath.Join(p.options.Assets, name) }

func (p *Plane) say(format string, args ...any) {
	if p.options.Progress != nil {
		fmt.Fprintf(p.options.Progress, format+"\n", args...)
	}
}

// repository finds the root of the checkout above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "config", "default", "kustomization.yaml")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not inside of a checkout (no config/default above it)")
		}
		dir = parent
	}
}
