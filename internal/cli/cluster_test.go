package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// startCluster starts an API server and returns a kubeconfig for it.
func startCluster(t *testing.T) (client.Client, string) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = "../../bin/k8s"
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{"../../config/crd/bases"},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start the control plane (build it with hack/cluster, or set KUBEBUILDER_ASSETS): %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c, file
}

// operate does once what the operator does: it plans a namespace, writes the
// documents and then the statuses.
func operate(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	ctx := t.Context()
	var policies v1alpha1.TimeoutPolicyList
	var reports v1alpha1.ClientReportList
	must(t, c.List(ctx, &policies, client.InNamespace(namespace)))
	must(t, c.List(ctx, &reports, client.InNamespace(namespace)))
	in := plan.Input{Namespace: namespace, Policies: policies.Items, Reports: reports.Items, Now: time.Now()}
	var configMaps corev1.ConfigMapList
	must(t, c.List(ctx, &configMaps, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}))
	stored := map[string]bool{}
	for _, m := range configMaps.Items {
		since, err := time.Parse(time.RFC3339, m.Annotations[plan.AnnotationSince])
		must(t, err)
		stored[m.Name] = true
		in.Existing = append(in.Existing, plan.ExistingDocument{
			ConfigMap: m.Name, Client: m.Labels[v1alpha1.LabelDocument], Revision: m.Annotations[v1alpha1.AnnotationRevision], Since: since,
		})
	}
	out := plan.Plan(in)
	for _, d := range out.Documents {
		if stored[d.ConfigMap] {
			continue
		}
		must(t, c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.ConfigMap, Labels: d.Labels, Annotations: d.Annotations},
			Data:       map[string]string{v1alpha1.DocumentKey: string(d.Data)},
		}))
	}
	for _, s := range out.Statuses {
		for i := range policies.Items {
			if policies.Items[i].Name == s.Name {
				policies.Items[i].Status = s.Status
				must(t, c.Status().Update(ctx, &policies.Items[i]))
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply creates the objects of a YAML text in a namespace.
func apply(t *testing.T, c client.Client, namespace, text string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o unstructured.Unstructured
		must(t, yaml.Unmarshal([]byte(part), &o.Object))
		if len(o.Object) == 0 || o.GetKind() == "ConfigMap" {
			continue
		}
		o.SetNamespace(namespace)
		must(t, c.Create(t.Context(), &o))
	}
}

// pod creates a pod and the report that it would write.
func pod(t *testing.T, c client.Client, namespace, name string, reported v1alpha1.ReportedClient) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	must(t, c.Create(t.Context(), p))
	must(t, c.Create(t.Context(), &v1alpha1.ClientReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: p.UID}}},
		Library: v1alpha1.ReportedLibrary{Name: "clientlib", Version: "v0.1.0"},
		Clients: []v1alpha1.ReportedClient{reported},
	}))
}

func TestCommandsOnACluster(t *testing.T) {
	c, kubeconfig := startCluster(t)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	must(t, c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}))
	kubectl := func(args ...string) (string, string, int) {
		return run(t, "", append(args, "--kubeconfig", kubeconfig, "-n", "shop")...)
	}

	t.Run("an empty namespace", func(t *testing.T) {
		for _, test := range []struct{ args, want string }{
			{"status", "namespace shop has no TimeoutPolicy"},
			{"status nobody", "namespace shop has no timeoutpolicy/nobody"},
			{"explain --client checkout --url http://orders/", `namespace shop has no document for the client "checkout"`},
		} {
			_, errs, status := kubectl(strings.Fields(test.args)...)
			if status != 2 || !strings.Contains(errs, test.want) {
				t.Errorf("%s: status %d, %q", test.args, status, errs)
			}
		}
	})

	apply(t, c, "shop", readFile(t, "testdata/policies/base.yaml"))
	apply(t, c, "shop", readFile(t, "testdata/policies/checkout.yaml"))

	t.Run("before the operator ran", func(t *testing.T) {
		out, _, status := kubectl("status", "checkout")
		if status != 1 || !strings.Contains(out, "the operator has seen generation 0, the policy is at 1: does it run?") {
			t.Errorf("status %d\n%s", status, out)
		}
	})

	operate(t, c, "shop")
	revision := func(name string) string {
		var m corev1.ConfigMap
		must(t, c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: "shop", Name: name}, &m))
		return m.Annotations[v1alpha1.AnnotationRevision]
	}
	full := map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{}
	for _, name := range []v1alpha1.ReportedWord{"TimeoutTotal", "TimeoutAttempt", "DeadlineHard", "DeadlineCoversBody", "RetryOwned", "RetryBudget", "CircuitBreaker"} {
		full[name] = v1alpha1.LevelEmulated
	}
	lame := map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{"CircuitBreaker": v1alpha1.LevelAbsent}
	pod(t, c, "shop", "checkout-1", v1alpha1.ReportedClient{Name: "checkout", Delivery: "Mount", State: "Ready", Revision: revision("timeouts-checkout"),
		Adapters: []v1alpha1.ReportedAdapter{{Name: "nethttp", Capabilities: full}}})
	pod(t, c, "shop", "checkout-2", v1alpha1.ReportedClient{Name: "checkout", Delivery: "Poll", State: "Stale", Revision: "sha256:0123456789abcdef",
		Reason: "InvalidUpdate", Message: "cannot honour circuitBreaker", Adapters: []v1alpha1.ReportedAdapter{{Name: "fasthttp", Capabilities: lame}}})
	pod(t, c, "shop", "web-1", v1alpha1.ReportedClient{Name: "web", Delivery: "Mount", State: "Ready", Revision: revision("timeouts"),
		Adapters: []v1alpha1.ReportedAdapter{{Name: "nethttp", Capabilities: full}}})
	operate(t, c, "shop")
	must(t, c.Create(t.Context(), &v1alpha1.ClientReport{ // of a pod that is gone
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gone-1", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "gone-1", UID: "gone"}}},
		Library:    v1alpha1.ReportedLibrary{Name: "clientlib"},
		Clients:    []v1alpha1.ReportedClient{{Name: "checkout", Delivery: "Mount", State: "Ready", Revision: revision("timeouts-checkout")}},
	}))

	pod(t, c, "shop", "done-1", v1alpha1.ReportedClient{Name: "checkout", Delivery: "Mount", State: "Ready"})
	done := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "done-1"}}
	must(t, c.Status().Patch(t.Context(), done, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`))))

	mute := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mute-1"}}
	mute.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	mute.Spec.Volumes = []corev1.Volume{{Name: "timeouts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "timeouts-checkout"}}}}}
	must(t, c.Create(t.Context(), mute))

	t.Run("status lists the policies", func(t *testing.T) {
		out, errs, status := kubectl("status")
		for _, want := range []string{"base", "2/3", "checkout", "1/2", "False (ServiceNotFound)", "False (MissingCapability)"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s%s", want, out, errs)
			}
		}
		if status != 1 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("status of one shows its pods", func(t *testing.T) {
		out, _, status := kubectl("status", "checkout")
		table := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{
			"checkout-1 checkout Applied Ready Mount",
			"checkout-2 checkout Pending Stale Poll 0123456789ab circuitBreaker of orders (fasthttp) InvalidUpdate: cannot honour circuitBreaker",
		} {
			if !strings.Contains(table, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if status != 1 || strings.Contains(out, "gone-1") || strings.Contains(out, "done-1") || strings.Contains(out, "web-1") ||
			strings.Count(out, "Note:") != 1 || !strings.Contains(out, "Note: pods that mount the ConfigMap timeouts-checkout and report nothing, so that nothing is known of them: mute-1\n") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
	t.Run("status as JSON", func(t *testing.T) {
		out, _, _ := kubectl("status", "base", "-o", "json")
		var states []struct {
			Generation int64
			Readers    []plan.Reader
			Status     v1alpha1.TimeoutPolicyStatus
		}
		must(t, json.Unmarshal([]byte(out), &states))
		if len(states) != 1 || len(states[0].Readers) != 3 || states[0].Status.Summary.Acknowledged != "2/3" {
			t.Errorf("got %+v", states)
		}
	})
	t.Run("explain reads the client's ConfigMap", func(t *testing.T) {
		out, errs, status := kubectl("explain", "--client", "checkout", "--url", "http://orders.shop:8080/")
		if status != 0 || !strings.Contains(out, "ConfigMap shop/timeouts-checkout") || !strings.Contains(out, "shop/checkout@1") {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
	})
	t.Run("explain falls through to the namespace's", func(t *testing.T) {
		out, _, status := kubectl("explain", "--client", "web", "--url", "http://orders.shop:8080/")
		if status != 0 || !strings.Contains(out, "ConfigMap shop/timeouts\n") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
	t.Run("a tombstone falls through too", func(t *testing.T) {
		must(t, c.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "timeouts-cart"},
			Data:       map[string]string{v1alpha1.DocumentKey: `{"schema":1,"tombstone":true}`},
		}))
		out, _, status := kubectl("explain", "--client", "cart", "--url", "http://orders.shop:8080/")
		if status != 0 || !strings.Contains(out, "ConfigMap shop/timeouts\n") {
			t.Errorf("status %d\n%s", status, out)
		}
	})
	t.Run("a damaged document is told", func(t *testing.T) {
		must(t, c.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "timeouts-broken"},
			Data:       map[string]string{v1alpha1.DocumentKey: `{"schema":1,`},
		}))
		_, errs, status := kubectl("explain", "--client", "broken", "--url", "http://orders.shop:8080/")
		if status != 2 || !strings.Contains(errs, "the document in the ConfigMap shop/timeouts-broken is not valid") {
			t.Errorf("status %d, %q", status, errs)
		}
	})
	t.Run("a policy that is ahead of its document is told", func(t *testing.T) {
		must(t, c.Patch(t.Context(), &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout"}},
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"onUnsupported":"Report"}}`))))
		out, _, status := kubectl("status", "checkout")
		for _, want := range []string{"the operator has seen generation 1, the policy is at 2", "the ConfigMap timeouts-checkout does not hold what these policies render to"} {
			if status != 1 || !strings.Contains(out, want) {
				t.Errorf("status %d, no %q in\n%s", status, want, out)
			}
		}
	})
	t.Run("a server that is away", func(t *testing.T) {
		_, errs, status := run(t, "", "status", "--kubeconfig", kubeconfig, "--server", "https://127.0.0.1:1")
		if status != 2 || !strings.HasPrefix(errs, "error: list the timeoutpolicies of namespace default: ") {
			t.Errorf("status %d, %q", status, errs)
		}
	})
}
