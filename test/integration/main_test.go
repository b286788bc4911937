package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// systemNamespace is where config/default puts the operator.
const systemNamespace = "timeout-system"

// shared is the cluster that most tests use, each in a namespace of its own.
var shared *cluster

// scratch is the cluster of those that change what the others stand on: schemas,
// roles, kinds. It starts when the first of them asks for it.
var scratch struct {
	start   sync.Once
	cluster *cluster
	err     error
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Libraries speak through the logger of each operator; what they say past it
	// is for debugging only.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	var err error
	if shared, err = startCluster(); err != nil {
		fmt.Fprintln(os.Stderr, "integration tests need a control plane:", err)
		return 1
	}
	code := 1
	if err = shared.install("config/default"); err == nil {
		code = m.Run()
	}
	err = errors.Join(err, shared.stop())
	if scratch.cluster != nil {
		err = errors.Join(err, scratch.cluster.stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(ignoredLeaks()...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// ignoredLeaks are goroutines that live as long as the process and are nobody's
// to stop.
func ignoredLeaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		// controller-runtime's queues and client-go's broadcasters end at their
		// next tick after they were shut down.
		goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).logState"),
		goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).updateUnfinishedWorkLoop"),
		// The watch of a metadata informer that was stopped while it had an event
		// to deliver (controller-runtime's newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
		// Idle connections of HTTP clients.
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
	}
}

// cluster is an API server with its etcd.
type cluster struct {
	env *envtest.Environment
	// admin may do everything.
	admin *rest.Config
	// client is the admin's; it does not cache.
	client     client.Client
	kubeconfig string
}

func assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(repository(), "bin", "k8s")
	}
	for _, binary := range []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager"} {
		if _, err := os.Stat(filepath.Join(dir, binary)); err != nil {
			return "", fmt.Errorf("%w (set KUBEBUILDER_ASSETS to a folder with the binaries, or build them with hack/cluster)", err)
		}
	}
	return dir, nil
}

// repository is the root of the checkout.
func repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return "../.."
	}
	return dir
}

// newScheme has the kinds as users of the API have them.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// startCluster starts an empty one.
func startCluster() (*cluster, error) {
	dir, err := assets()
	if err != nil {
		return nil, err
	}
	c := &cluster{env: &envtest.Environment{BinaryAssetsDirectory: dir, ControlPlaneStartTimeout: 2 * time.Minute}}
	if c.admin, err = c.env.Start(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	file, err := os.CreateTemp("", "kubeconfig-")
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.kubeconfig = file.Name()
	_, err = file.Write(c.env.KubeConfig)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.client, err = client.New(c.admin, client.Options{Scheme: newScheme()})
	return c, err
}

func (c *cluster) stop() error {
	if c.kubeconfig != "" {
		_ = os.Remove(c.kubeconfig)
	}
	return c.env.Stop()
}

// install applies a kustomization of the repository, as a user would.
func (c *cluster) install(path string) error {
	_, err := c.kubectl("apply", "-k", filepath.Join(repository(), path))
	if err != nil {
		return err
	}
	_, err = c.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
	return err
}

func (c *cluster) kubectl(args ...string) (string, error) {
	command := exec.Command(filepath.Join(c.env.BinaryAssetsDirectory, "kubectl"), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %v: %w\n%s", args, err, output)
	}
	return string(output), nil
}

// newCluster starts a cluster that belongs to one test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := startCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newScratch hands the scratch cluster to a test, with everything as it is after
// an installation, whatever the test before it did. What it stores in namespaces
// of its own is deleted afterwards.
func newScratch(t *testing.T) *cluster {
	t.Helper()
	scratch.start.Do(func() { scratch.cluster, scratch.err = startCluster() })
	if scratch.err != nil {
		t.Fatal(scratch.err)
	}
	c := scratch.cluster
	if err := c.install("config/default"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var namespaces corev1.NamespaceList
		if err := c.client.List(context.Background(), &namespaces); err != nil {
			t.Error(err)
		}
		for i := range namespaces.Items {
			if name := namespaces.Items[i].Name; strings.HasPrefix(name, testPrefix) {
				c.empty(t, name, &v1alpha1.TimeoutPolicy{}, &v1alpha1.ClientReport{}, &corev1.ConfigMap{})
			}
		}
	})
	return c
}

// empty deletes all objects of some kinds in a namespace.
func (c *cluster) empty(t *testing.T, namespace string, kinds ...client.Object) {
	t.Helper()
	for _, kind := range kinds {
		if err := c.client.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("delete every %T of %s: %v", kind, namespace, err)
		}
	}
}

const testPrefix = "test-"

// newNamespace makes a namespace with the service account that its pods use.
func (c *cluster) newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{}
	namespace.GenerateName = testPrefix
	c.create(t, namespace)
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace.Name, "default"
	c.create(t, account)
	return namespace.Name
}

func (c *cluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.client.Create(context.Background(), object); err != nil {
		t.Errorf("create %T %s: %v", object, object.GetName(), err)
	}
}
