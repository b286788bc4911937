package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// environment is the API server of this package's tests; the first test that
// needs it starts it.
// A machine that is busy compiling takes its time to start an API server.
var environment = &envtest.Environment{
	CRDDirectoryPaths:        []string{"../config/crd/bases"},
	ErrorIfCRDPathMissing:    true,
	ControlPlaneStartTimeout: 2 * time.Minute,
}

// admin may do everything there.
var admin = sync.OnceValues(func() (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.BinaryAssetsDirectory = filepath.Join("..", "bin", "k8s")
	}
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("these tests need a control plane (KUBEBUILDER_ASSETS): %w", errors.Join(err, environment.Stop()))
	}
	return config, nil
})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if environment.Config != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fixture is a reconciler whose reads and writes go to the API server directly,
// so that one call of Reconcile is one step.
type fixture struct {
	*TimeoutPolicyReconciler
	namespace string
	events    *FakeRecorder
	// users sees the API as users do.
	users client.Client
}

// newFixture makes one in a namespace of its own. adjust may put something
// between the reconciler and the API server.
func newFixture(t *testing.T, adjust ...func(client.WithWatch) client.Client) *fixture {
	t.Helper()
	config, err := admin()
	if err != nil {
		t.Fatal(err)
	}
	forgiving, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(config, client.Options{Scheme: forgiving})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	users, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := users.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	recorder := &FakeRecorder{}
	f := &fixture{namespace: namespace.Name, events: recorder, users: users}
	f.TimeoutPolicyReconciler = &TimeoutPolicyReconciler{Client: direct, Live: direct, Recorder: recorder, Metrics: metrics, Now: time.Now, goodNews: newGoodNews()}
	for _, change := range adjust {
		f.Client = change(direct)
	}
	return f
}

// FakeRecorder keeps the reasons of events by the name of their object.
type FakeRecorder struct{ reasons map[string][]string }

// Eventf implements events.EventRecorder.
func (r *FakeRecorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	if r.reasons == nil {
		r.reasons = map[string][]string{}
	}
	name := regarding.(client.Object).GetName()
	r.reasons[name] = append(r.reasons[name], reason)
}

var _ events.EventRecorder = &FakeRecorder{}

func (f *fixture) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return f.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: f.namespace}})
}

func (f *fixture) expectReconciled(t *testing.T) ctrl.Result {
	t.Helper()
	result, err := f.reconcile(t)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// newPolicy creates a policy for one client.
func (f *fixture) newPolicy(t *testing.T, name, forClient string) *v1alpha1.TimeoutPolicy {
	t.Helper()
	limit := v1alpha1.Duration("1s")
	policy := &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	policy.Spec.Clients = []v1alpha1.ClientName{v1alpha1.ClientName(forClient)}
	policy.Spec.Upstreams = []v1alpha1.Upstream{{
		Name: "orders", Hosts: []v1alpha1.HostPattern{"orders.example.com"},
		Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: &limit}},
	}}
	if err := f.users.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

func (f *fixture) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	configMap := &corev1.ConfigMap{}
	if err := f.users.Get(context.Background(), client.ObjectKey{Namespace: f.namespace, Name: name}, configMap); err != nil {
		t.Fatal(err)
	}
	return configMap
}

// status reads what is stored.
func (f *fixture) status(t *testing.T, name string) v1alpha1.TimeoutPolicyStatus {
	t.Helper()
	policy := &v1alpha1.TimeoutPolicy{}
	if err := f.users.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, policy); err != nil {
		t.Fatal(err)
	}
	return policy.Status
}
