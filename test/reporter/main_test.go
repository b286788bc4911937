// Package reporter holds the client library's reporter to a real API server:
// real TLS, real bound tokens, the real schema, admission and rights.
package reporter

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
)

const root = "../.."

// config and admin act as an administrator.
var (
	config *rest.Config
	admin  client.Client
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/reporter:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin/k8s")
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config/crd/bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	var err error
	if config, err = env.Start(); err != nil {
		return 0, fmt.Errorf("start the control plane (build its binaries with hack/cluster, or set KUBEBUILDER_ASSETS): %w", err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "test/reporter: stop the control plane:", err)
		}
	}()
	config.QPS, config.Burst = -1, -1
	if admin, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	for _, file := range []string{"config/rbac/reporter.yaml", "config/admission/clientreport_identity.yaml"} {
		if err := eachObject(file, func(o client.Object) error { return admin.Create(context.Background(), o) }); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// eachObject calls do for every object of a manifest.
func eachObject(file string, do func(client.Object) error) error {
	f, err := os.Open(filepath.Join(root, file))
	if err != nil {
		return err
	}
	defer f.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); err != nil {
			break // the end of the file
		}
		if err := do(o); err != nil {
			return fmt.Errorf("%s: %s %s: %w", file, o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// workload is a pod with the files that Kubernetes would mount into it.
type workload struct {
	pod     *corev1.Pod
	options report.Options
}

// newNamespace makes a namespace with the service account that pods have.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "reporter-"}}
	must(t, admin.Create(t.Context(), ns))
	must(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}))
	return ns.Name
}

// newWorkload makes a pod that nothing runs, with a token that is bound to it.
func newWorkload(t *testing.T, namespace, name string) *workload {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	must(t, admin.Create(t.Context(), pod))
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	must(t, admin.SubResource("token").Create(t.Context(), account, request))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(request.Status.Token), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "ca.crt"), config.CAData, 0o600))
	return &workload{pod, report.Options{
		Container:   "app",
		Server:      "https://" + serverHost(),
		TokenFile:   filepath.Join(dir, "token"),
		CAFile:      filepath.Join(dir, "ca.crt"),
		FirstDelay:  time.Millisecond,
		MinInterval: 10 * time.Millisecond,
		Spread:      time.Millisecond,
		MaxBackoff:  200 * time.Millisecond,
	}}
}

// serverHost is the address of the API server without its scheme.
func serverHost() string {
	host := config.Host
	for _, scheme := range []string{"https://", "http://"} {
		if len(host) > len(scheme) && host[:len(scheme)] == scheme {
			host = host[len(scheme):]
		}
	}
	return host
}

func (w *workload) start(t *testing.T) *report.Reporter {
	t.Helper()
	r, err := report.New(w.options)
	must(t, err)
	t.Cleanup(r.Close)
	return r
}

// expectReport waits until the API server has a report of the pod that
// satisfies check.
func (w *workload) expectReport(t *testing.T, check func(*v1alpha1.ClientReport) error) *v1alpha1.ClientReport {
	t.Helper()
	got := &v1alpha1.ClientReport{}
	eventually(t, func() error {
		raw := &unstructured.Unstructured{}
		raw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(report.Kind))
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(w.pod), raw); err != nil {
			return err
		}
		data, err := raw.MarshalJSON()
		if err != nil {
			return err
		}
		*got = v1alpha1.ClientReport{}
		// Strictly: what the API types do not know would be lost.
		if err := yaml.UnmarshalStrict(data, got); err != nil {
			return err
		}
		return check(got)
	})
	return got
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	}); err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mayOnly asks whether the service account of a workload has one right to
// reports and not another.
func (w *workload) mayOnly(t *testing.T, has, lacks string) error {
	t.Helper()
	for verb, want := range map[string]bool{has: true, lacks: false} {
		review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace}}
		review.Spec.User = "system:serviceaccount:" + w.pod.Namespace + ":default"
		review.Spec.Groups = []string{"system:serviceaccounts"}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: w.pod.Namespace, Verb: verb, Group: v1alpha1.Group, Resource: "clientreports", Name: w.pod.Name}
		if err := admin.Create(t.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("%s is allowed: %v", verb, review.Status.Allowed)
		}
	}
	return nil
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
