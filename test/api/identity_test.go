package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// workload is a pod with a token of its own, as a kubelet would give it one.
type workload struct {
	pod    *corev1.Pod
	token  string
	client *dynamic.DynamicClient
}

func namespace(t *testing.T) string {
	t.Helper()
	ns, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.CoreV1().ServiceAccounts(ns.Name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func newWorkload(t *testing.T, namespace, name string) *workload {
	t.Helper()
	pod, err := core.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{ServiceAccountName: "app", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload{pod: pod}
	w.login(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	return w
}

// login asks for a token that is bound to an object, or to none.
func (w *workload) login(t *testing.T, bound *authenticationv1.BoundObjectReference) {
	t.Helper()
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: bound}}
	request, err := core.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(t.Context(), "app", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.token = request.Status.Token
	c := rest.AnonymousClientConfig(config)
	c.BearerToken, c.QPS = w.token, -1
	if w.client, err = dynamic.NewForConfig(c); err != nil {
		t.Fatal(err)
	}
}

// report is what the workload says about itself.
func (w *workload) report() *unstructured.Unstructured {
	return reportOf(w.pod.Namespace, w.pod.Name, owner(w.pod))
}

func owner(pod *corev1.Pod) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod.Name, "uid": string(pod.UID)}
}

func reportOf(namespace, name string, owners ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClientReport",
		"metadata": map[string]any{"name": name, "namespace": namespace, "ownerReferences": owners},
		"library":  map[string]any{"name": "clientlib", "version": "v0.1.0"},
		"clients": []any{map[string]any{
			"name": "checkout", "delivery": "Mount", "state": "Ready", "revision": "sha256:0",
			"policies": []any{map[string]any{"namespace": namespace, "name": "checkout", "uid": "u", "generation": int64(3), "revision": "sha256:0", "state": "Applied"}},
			"adapters": []any{map[string]any{"name": "nethttp", "capabilities": map[string]any{"TimeoutTotal": "Emulated"}, "emits": []any{"ConnectTimeout"}}},
		}},
	}}
}

// apply writes a report the way a workload does: server-side, with its token.
func (w *workload) apply(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	force := true
	_, err = w.client.Resource(reports).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: v1alpha1.ReporterFieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict})
	return err
}

func wantForbidden(t *testing.T, err error, message string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "no such key") {
		t.Errorf("want it forbidden with %q, got %v", message, err)
	}
}

// wantDocumented asserts that docs/status.md tells an attempt and its answer.
func wantDocumented(t *testing.T, attempt string, err error) {
	t.Helper()
	page, readErr := os.ReadFile("../../docs/status.md")
	if readErr != nil {
		t.Fatal(readErr)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 || cells[0] != attempt {
			continue
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || fmt.Sprint(status.Status().Code) != cells[1] || !strings.Contains(err.Error(), cells[2]) {
			t.Errorf("docs/status.md says that %s is answered %s %q, and it is %.300v", attempt, cells[1], cells[2], err)
		}
		return
	}
	t.Errorf("docs/status.md does not tell of %q", attempt)
}

// wantNoReport asserts that nothing was stored.
func wantNoReport(t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := cluster.Resource(reports).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("want no report stored, got %v", err)
	}
}

func TestAPodWritesItsOwnReport(t *testing.T) {
	w := newWorkload(t, namespace(t), "checkout-1")
	if err := w.apply(t, w.report()); err != nil {
		t.Fatalf("the first write: %v", err)
	}
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if err := w.apply(t, withMetadata(w.report(), field, nil)); err != nil {
			t.Errorf("null %s: %v", field, err)
		}
	}
	again := w.report()
	again.Object["clients"].([]any)[0].(map[string]any)["state"] = "Stale"
	if err := w.apply(t, again); err != nil {
		t.Fatalf("a change: %v", err)
	}
	stored, err := w.client.Resource(reports).Namespace(w.pod.Namespace).Get(t.Context(), w.pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading it back: %v", err)
	}
	if state := stored.Object["clients"].([]any)[0].(map[string]any)["state"]; state != "Stale" {
		t.Errorf("want the change stored, got %v", state)
	}
	owners := stored.GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != w.pod.UID || owners[0].Kind != "Pod" {
		t.Errorf("want the pod as the only owner, so that the report goes with it, got %v", owners)
	}
}

// Case O24.
func TestAPodSpeaksForNobodyElse(t *testing.T) {
	ns, elsewhere := namespace(t), namespace(t)
	w, other, foreign := newWorkload(t, ns, "checkout-1"), newWorkload(t, ns, "checkout-2"), newWorkload(t, elsewhere, "checkout-1")
	const (
		wantName      = "a pod writes the ClientReport of its own name only; set metadata.name to the name of the pod"
		wantNamespace = "a pod writes the ClientReport of its own namespace only; set metadata.namespace to the namespace of the pod"
		wantOneOwner  = "a ClientReport has exactly one owner, its pod; set one entry in metadata.ownerReferences"
		wantOwner     = "the owner of a ClientReport is the pod that writes it; set its name and uid in metadata.ownerReferences"
	)
	withOwner := func(change func(map[string]any)) *unstructured.Unstructured {
		o := owner(w.pod)
		change(o)
		return reportOf(ns, w.pod.Name, o)
	}
	for _, test := range []struct {
		name    string
		report  *unstructured.Unstructured
		message string
	}{
		{"another pod's report", other.report(), wantName},
		{"another pod's report with the own uid", reportOf(ns, other.pod.Name, owner(w.pod)), wantName},
		{"a pod that does not exist", reportOf(ns, "checkout-3", owner(w.pod)), wantName},
		{"the report of a namesake in another namespace", foreign.report(), wantNamespace},
		{"the own report in another namespace", reportOf(elsewhere, w.pod.Name, owner(w.pod)), wantNamespace},
		{"no owner", withMetadata(w.report(), "ownerReferences", []any{}), wantOneOwner},
		{"null for an owner", withMetadata(w.report(), "ownerReferences", nil), wantOneOwner},
		{"two owners", reportOf(ns, w.pod.Name, owner(w.pod), owner(other.pod)), wantOneOwner},
		{"another pod as the owner", reportOf(ns, w.pod.Name, owner(other.pod)), wantOwner},
		{"a foreign uid", withOwner(func(o map[string]any) { o["uid"] = string(other.pod.UID) }), wantOwner},
		{"a foreign name", withOwner(func(o map[string]any) { o["name"] = other.pod.Name }), wantOwner},
		{"an owner of another kind", withOwner(func(o map[string]any) { o["kind"] = "ConfigMap" }), wantOwner},
		{"an owner of another group", withOwner(func(o map[string]any) { o["apiVersion"] = "example.com/v1" }), wantOwner},
		{"finalizers", withMetadata(w.report(), "finalizers", []any{"example.com/stay"}), "a ClientReport goes with its pod; leave metadata.finalizers out"},
		{"many annotations", withAnnotations(w.report(), 17, 1), "a ClientReport carries at most 16 labels and 16 annotations of 512 characters each; leave out the others"},
		{"a long annotation", withAnnotations(w.report(), 1, 512), "a ClientReport carries at most 16 labels and 16 annotations of 512 characters each; leave out the others"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := w.apply(t, test.report)
			wantForbidden(t, err, test.message)
			wantDocumented(t, test.name, err)
			wantNoReport(t, test.report.GetNamespace(), test.report.GetName())
		})
	}
	// Whoever tries is seen.
	metrics, err := core.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{") &&
			strings.Contains(line, `enforcement_action="deny"`) && strings.Contains(line, `policy="timeout-operator-reports"`) {
			return
		}
	}
	t.Error("the API server does not count what it denied")
}

// TestAStoredReportIsSafeFromOthers: a report that is there already is not
// changed by anybody else either, not even in part.
func TestAStoredReportIsSafeFromOthers(t *testing.T) {
	ns := namespace(t)
	w, other := newWorkload(t, ns, "checkout-1"), newWorkload(t, ns, "checkout-2")
	if err := w.apply(t, w.report()); err != nil {
		t.Fatal(err)
	}
	before, err := cluster.Resource(reports).Namespace(ns).Get(t.Context(), w.pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"clients":[]}`,
		`{"metadata":{"labels":{"a":"b"}}}`,
		`{"metadata":{"ownerReferences":null}}`,
		`{"metadata":{"finalizers":["example.com/stay"]}}`,
	} {
		_, err := other.client.Resource(reports).Namespace(ns).Patch(t.Context(), w.pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		wantForbidden(t, err, "a pod writes the ClientReport of its own name only")
		wantDocumented(t, "a part of another pod's stored report", err)
	}
	err = other.client.Resource(reports).Namespace(ns).Delete(t.Context(), w.pod.Name, metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("want deletion forbidden, got %v", err)
	}
	wantDocumented(t, "to delete a report", err)
	after, err := cluster.Resource(reports).Namespace(ns).Get(t.Context(), w.pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if before.GetResourceVersion() != after.GetResourceVersion() {
		t.Error("the report was changed")
	}
}

// TestCallersWithoutAPodAreDeniedCleanly: absent keys of the user info are a
// denial with a message, never an evaluation error.
//
// Cases O24, O35.
func TestCallersWithoutAPodAreDeniedCleanly(t *testing.T) {
	const want = "a ClientReport is written by a pod with its own bound service account token; this caller shows none"
	ns := namespace(t)
	w := newWorkload(t, ns, "checkout-1")

	t.Run("an administrator", func(t *testing.T) {
		_, err := cluster.Resource(reports).Namespace(ns).Create(t.Context(), w.report(), metav1.CreateOptions{})
		wantForbidden(t, err, want)
		wantDocumented(t, "an administrator", err)
	})
	t.Run("a token that is bound to nothing", func(t *testing.T) {
		loose := &workload{pod: w.pod}
		loose.login(t, nil)
		err := loose.apply(t, w.report())
		wantForbidden(t, err, want)
		wantDocumented(t, "a token that is bound to nothing", err)
	})
	t.Run("a token that is bound to a Secret", func(t *testing.T) {
		secret, err := core.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "checkout-1"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bound := &workload{pod: w.pod}
		bound.login(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID})
		err = bound.apply(t, w.report())
		wantForbidden(t, err, want)
		wantDocumented(t, "a token that is bound to a Secret", err)
	})
	for name, extra := range map[string]map[string][]string{
		"no extra at all":      nil,
		"a name without a uid": {"authentication.kubernetes.io/pod-name": {"checkout-1"}},
		"a uid without a name": {"authentication.kubernetes.io/pod-uid": {string(w.pod.UID)}},
		"two names":            {"authentication.kubernetes.io/pod-name": {"checkout-1", "checkout-2"}, "authentication.kubernetes.io/pod-uid": {string(w.pod.UID)}},
		"empty lists":          {"authentication.kubernetes.io/pod-name": {}, "authentication.kubernetes.io/pod-uid": {}},
	} {
		t.Run(name, func(t *testing.T) {
			c := rest.CopyConfig(config)
			c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":app", Groups: []string{"system:serviceaccounts"}, Extra: extra}
			client, err := dynamic.NewForConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Resource(reports).Namespace(ns).Create(t.Context(), w.report(), metav1.CreateOptions{})
			wantForbidden(t, err, want)
			wantDocumented(t, name, err)
		})
	}
	wantNoReport(t, ns, w.pod.Name)
}

// TestATokenOfADeletedPodIsWorthNothing: the pod's name lives on with another
// uid, as in a StatefulSet.
//
// Case O24.
func TestATokenOfADeletedPodIsWorthNothing(t *testing.T) {
	ns := namespace(t)
	old := newWorkload(t, ns, "checkout-0")
	if err := old.apply(t, old.report()); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	if err := core.CoreV1().Pods(ns).Delete(t.Context(), old.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	young := newWorkload(t, ns, "checkout-0")
	t.Run("the new pod takes name and owner over", func(t *testing.T) {
		if err := young.apply(t, young.report()); err != nil {
			t.Fatal(err)
		}
		stored, err := cluster.Resource(reports).Namespace(ns).Get(t.Context(), "checkout-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if owners := stored.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != young.pod.UID {
			t.Errorf("want the new pod as the only owner, got %v", owners)
		}
	})
	t.Run("the old token is refused", func(t *testing.T) {
		var err error
		await(t, "the old token is refused", func(context.Context) (bool, error) {
			err = old.apply(t, old.report())
			return apierrors.IsUnauthorized(err), nil
		})
		wantDocumented(t, "the token of a pod that is gone", err)
	})
}

// TestTheControlPlaneMayTouchReports: garbage collection and storage migration
// do not get stuck on them.
func TestTheControlPlaneMayTouchReports(t *testing.T) {
	w := newWorkload(t, namespace(t), "checkout-1")
	if err := w.apply(t, w.report()); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{
		"system:kube-controller-manager",
		"system:serviceaccount:kube-system:generic-garbage-collector",
		"system:serviceaccount:kube-system:storage-version-migrator-controller",
	} {
		c := rest.CopyConfig(config)
		c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		client, err := dynamic.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q,"blockOwnerDeletion":false}]}}`, w.pod.Name, w.pod.UID)
		if _, err := client.Resource(reports).Namespace(w.pod.Namespace).Patch(t.Context(), w.pod.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
}

func withMetadata(o *unstructured.Unstructured, field string, value any) *unstructured.Unstructured {
	o.Object["metadata"].(map[string]any)[field] = value
	return o
}

func withAnnotations(o *unstructured.Unstructured, count, length int) *unstructured.Unstructured {
	annotations := map[string]string{}
	for i := range count {
		annotations[fmt.Sprintf("a%d", i)] = strings.Repeat("x", length)
	}
	o.SetAnnotations(annotations)
	return o
}
