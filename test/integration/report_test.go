package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/operator"
)

// quick makes reports count soon, so that tests do not wait for them.
func quick(o *operator.Options) { o.ReportDebounce = 50 * time.Millisecond }

// newPod makes a pod that nothing runs.
func (c *cluster) newPod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	c.create(t, pod)
	return pod
}

// reportAs applies a report with the pod's own bound token, as clientlib does.
func (c *cluster) reportAs(t *testing.T, pod *corev1.Pod, clients ...map[string]any) {
	t.Helper()
	c.reportBy(t, v1alpha1.ReporterFieldManager, pod, clients...)
}

// reportBy does so as one of the pod's containers, by its field manager. It
// waits until the report is accepted.
func (c *cluster) reportBy(t *testing.T, manager string, pod *corev1.Pod, clients ...map[string]any) {
	t.Helper()
	ctx := context.Background()
	admin, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a token for pod %s: %v", pod.Name, err)
	}
	config := rest.AnonymousClientConfig(c.admin)
	config.BearerToken = token.Status.Token
	workload, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, len(clients))
	for i := range clients {
		list[i] = clients[i]
	}
	report := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClientReport",
		"metadata": map[string]any{
			"namespace": pod.Namespace, "name": pod.Name,
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod.Name, "uid": string(pod.UID)}},
		},
		"library": map[string]any{"name": "clientlib", "version": "v0.1.0"},
		"clients": list,
	}}
	// A new binding takes a moment to reach the authorizer.
	eventually(t, func() error {
		return workload.Apply(ctx, client.ApplyConfigurationFromUnstructured(report.DeepCopy()), client.FieldOwner(manager))
	})
}

// checkoutClient says that the client checkout has a revision in force.
func checkoutClient(revision string, capabilities map[string]any) map[string]any {
	return map[string]any{
		"name": "checkout", "delivery": "Mount", "state": "Ready", "revision": revision,
		"adapters": []any{map[string]any{"name": "nethttp", "capabilities": capabilities}},
	}
}

func allCapable() map[string]any {
	return map[string]any{
		"TimeoutTotal": "Emulated", "TimeoutAttempt": "Emulated", "DeadlineHard": "Native", "DeadlineCoversBody": "Emulated",
	}
}

func (c *cluster) revision(t *testing.T, namespace, configMap string) string {
	t.Helper()
	doc, _, err := c.document(namespace, configMap)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Revision
}

// summary wants the words of a status.
func summary(acknowledged, capable string) func(*v1alpha1.TimeoutPolicyStatus) error {
	return func(s *v1alpha1.TimeoutPolicyStatus) error {
		if s.Summary.Acknowledged != acknowledged || s.Summary.Capable != capable {
			return fmt.Errorf("acknowledged %q, capable %q, want %q and %q", s.Summary.Acknowledged, s.Summary.Capable, acknowledged, capable)
		}
		return nil
	}
}

func TestReportsShowOnTheStatus(t *testing.T) {
	const ready = `timeouts_operator_reports{state="ready"}`
	p := shared.startReady(t, quick)
	p.settle(t)
	others := p.metric(t, ready)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	first, second := shared.newPod(t, namespace, "checkout-1"), shared.newPod(t, namespace, "checkout-2")
	shared.reportAs(t, first, checkoutClient(revision, allCapable()))
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged)
	shared.expectCondition(t, policy, v1alpha1.ConditionCapable, metav1.ConditionTrue, v1alpha1.ReasonAllCapable)
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)

	lacking := allCapable()
	lacking["DeadlineCoversBody"] = "Absent"
	incapable := checkoutClient(revision, lacking)
	incapable["upstreams"] = []any{map[string]any{"name": "orders", "adapter": "nethttp",
		"unsupported": []any{map[string]any{"field": "timeouts.scope", "capability": "DeadlineCoversBody"}}}}
	shared.reportAs(t, second, incapable)
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		if err := summary("2/2", "1/2")(s); err != nil {
			return err
		}
		if len(s.Clients) != 1 || s.Clients[0].Name != "checkout" || s.Clients[0].Reporting != 2 || s.Clients[0].Applied != 2 || s.Clients[0].Revision != revision {
			return fmt.Errorf("clients are %+v", s.Clients)
		}
		if len(s.Unsupported) != 1 || s.Unsupported[0].Capability != "DeadlineCoversBody" || s.Unsupported[0].Clients != 1 {
			return fmt.Errorf("unsupported is %+v", s.Unsupported)
		}
		for _, c := range s.Capabilities {
			if c.Name == "DeadlineCoversBody" && c.Emulated == 1 && c.Absent == 1 {
				return nil
			}
		}
		return fmt.Errorf("capabilities are %+v", s.Capabilities)
	})
	shared.expectCondition(t, policy, v1alpha1.ConditionCapable, metav1.ConditionFalse, v1alpha1.ReasonMissingCapability)
	p.expectMetric(t, ready, others+2)

	// A True is latched: a pod that comes later and has not caught up yet does
	// not take the acknowledgement back.
	third := shared.newPod(t, namespace, "checkout-3")
	shared.reportAs(t, third, checkoutClient("sha256:0", allCapable()))
	shared.expectStatus(t, policy, summary("2/3", "2/3"))
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged)
}

func TestEditPropagatesUntilThePodFollows(t *testing.T) {
	shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	pod := shared.newPod(t, namespace, "checkout-1")
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged)

	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonPropagating)
	rejecting := checkoutClient("sha256:0", allCapable())
	rejecting["state"] = "Stale"
	rejecting["policies"] = []any{map[string]any{"namespace": namespace, "name": policy.Name, "uid": string(policy.UID), "generation": policy.Generation,
		"state": "Rejected", "reason": "Unsupported", "message": "cannot honour it"}}
	shared.reportAs(t, pod, rejecting)
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionFalse, v1alpha1.ReasonRejected)
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged)
}

func TestReportWithoutItsPodSaysNothing(t *testing.T) {
	const orphan = `timeouts_operator_reports{state="orphan"}`
	p := shared.startReady(t, quick)
	p.settle(t)
	others := p.metric(t, orphan)
	namespace, other := shared.newNamespace(t), shared.newNamespace(t)
	policy, same := newPolicy(namespace, "checkout"), newPolicy(other, "checkout")
	shared.create(t, policy)
	shared.create(t, same)
	shared.expectProgrammed(t, policy)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	pod := shared.newPod(t, namespace, "checkout-1")
	shared.reportAs(t, pod, checkoutClient(revision, allCapable()))
	shared.expectStatus(t, policy, summary("1/1", "1/1"))
	// O25: the policy of the same name next door has no clients.
	shared.expectCondition(t, same, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonNoClients)

	// Nothing collects garbage here, so the report outlives its pod.
	if err := shared.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		if len(s.Clients) != 1 || s.Clients[0].Reporting != 0 {
			return fmt.Errorf("clients are %+v", s.Clients)
		}
		return nil
	})
	p.expectMetric(t, orphan, others+1)

	// O23: another pod of the same name does not inherit it, and takes it over
	// when it reports itself.
	again := shared.newPod(t, namespace, "checkout-1")
	if again.UID == pod.UID {
		t.Fatal("the new pod has the old UID")
	}
	p.settle(t)
	p.expectMetric(t, orphan, others+1)
	shared.reportAs(t, again, checkoutClient(revision, allCapable()))
	shared.expectStatus(t, policy, summary("1/1", "1/1"))
	p.expectMetric(t, orphan, others)
}

func TestFinishedPodDoesNotCount(t *testing.T) {
	shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	pod := shared.newPod(t, namespace, "job-1")
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	shared.expectStatus(t, policy, summary("1/1", "1/1"))
	pod.Status.Phase = corev1.PodSucceeded
	if err := shared.client.Status().Update(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		if len(s.Clients) != 1 || s.Clients[0].Reporting != 0 {
			return fmt.Errorf("clients are %+v", s.Clients)
		}
		return nil
	})
}

// Case O18.
func TestManyReportsCostOneStatus(t *testing.T) {
	p := shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 2 * time.Second })
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	p.settle(t)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	pods := make([]*corev1.Pod, 10)
	for i := range pods {
		pods[i] = shared.newPod(t, namespace, fmt.Sprintf("checkout-%d", i))
	}
	started := time.Now()
	p.requests.reset()
	for _, pod := range pods {
		shared.reportAs(t, pod, checkoutClient(revision, allCapable()))
	}
	shared.expectStatus(t, policy, summary("10/10", "10/10"))
	windows := 1 + int(time.Since(started)/(2*time.Second))
	if writes := p.requests.writes("/status", "/"+namespace+"/"); len(writes) > windows {
		t.Errorf("%d status writes for 10 reports within %d windows", len(writes), windows)
	}
}

func TestEditIsNotHeldUpByReports(t *testing.T) {
	shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 10 * patience })
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	pod := shared.newPod(t, namespace, "checkout-1")
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
}

// Case O19.
func TestSwitchingReportsOffClearsTheNumbers(t *testing.T) {
	first := shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	pod := shared.newPod(t, namespace, "checkout-1")
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	shared.expectStatus(t, policy, summary("1/1", "1/1"))
	first.end(t)
	shared.startReady(t, func(o *operator.Options) { o.Plan.ReportingDisabled = true })
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonReportingDisabled)
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		if s.Summary.Acknowledged != "" || len(s.Capabilities) != 0 {
			return errors.New("numbers are left")
		}
		return nil
	})
}

// TestKubectlWaitIsADeployGate: what a pipeline does after kubectl apply. The
// Ready of the generation before lets nobody through.
func TestKubectlWaitIsADeployGate(t *testing.T) {
	shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	pod := shared.newPod(t, namespace, "checkout-1")
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	gate := func(timeout string) error {
		_, err := shared.kubectl("wait", "--for=condition=Ready", "tmo/checkout", "-n", namespace, "--timeout="+timeout)
		return err
	}
	if err := gate(patience.String()); err != nil {
		t.Fatal(err)
	}
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	if err := gate("1s"); err == nil {
		t.Fatal("the gate is open, and no pod has the edit")
	}
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonPropagating)
	shared.reportAs(t, pod, checkoutClient(shared.revision(t, namespace, "timeouts-checkout"), allCapable()))
	if err := gate(patience.String()); err != nil {
		t.Fatal(err)
	}
}

// TestAnEditMovesTheStatusOfItsPolicyAlone: twenty policies share a document, so
// an edit of one gives every pod a new revision. What the pods say of the other
// nineteen stays, and so do their statuses.
//
// Case O18.
func TestAnEditMovesTheStatusOfItsPolicyAlone(t *testing.T) {
	p := shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policies := make([]*v1alpha1.TimeoutPolicy, 20)
	for i := range policies {
		policies[i] = newPolicy(namespace, fmt.Sprintf("checkout-%02d", i), func(p *v1alpha1.TimeoutPolicy) {
			p.Spec.Upstreams[0].Name = v1alpha1.Label(fmt.Sprintf("orders-%02d", i))
			p.Spec.Upstreams[0].Hosts = []v1alpha1.HostPattern{v1alpha1.HostPattern(fmt.Sprintf("orders-%02d.example.com", i))}
		})
		shared.create(t, policies[i])
	}
	var said []any
	for _, policy := range policies {
		shared.expectProgrammed(t, policy)
		said = append(said, map[string]any{"namespace": namespace, "name": policy.Name, "uid": string(policy.UID), "generation": int64(1), "state": "Applied"})
	}
	has := func(revision string) map[string]any {
		c := checkoutClient(revision, allCapable())
		c["policies"] = said
		return c
	}
	p.settle(t)
	pods := make([]*corev1.Pod, 5)
	for i := range pods {
		pods[i] = shared.newPod(t, namespace, fmt.Sprintf("checkout-%d", i))
		shared.reportAs(t, pods[i], has(shared.revision(t, namespace, "timeouts-checkout")))
	}
	for _, policy := range policies {
		shared.expectStatus(t, policy, summary("5/5", "5/5"))
	}
	p.settle(t)

	edited := policies[7]
	p.requests.reset()
	edit(t, shared, edited, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectCondition(t, edited, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonPropagating)
	said[7].(map[string]any)["generation"] = int64(2)
	for _, pod := range pods {
		shared.reportAs(t, pod, has(shared.revision(t, namespace, "timeouts-checkout")))
	}
	shared.expectStatus(t, edited, summary("5/5", "5/5"))
	p.settle(t)
	for _, policy := range policies {
		writes := p.requests.writes("/"+namespace+"/timeoutpolicies/"+policy.Name+"/", "/status")
		if policy == edited && len(writes) == 0 || policy != edited && len(writes) > 0 {
			t.Errorf("%s: %d status writes", policy.Name, len(writes))
		}
	}
}

// testReportsGoWithTheirPods runs where the garbage collector does. Nobody but
// it may delete a report. A pod of two containers that takes over the name of
// another one cannot take over its report, half of which is still the other's,
// and gets one of its own as soon as that is gone.
func (c *cluster) testReportsGoWithTheirPods(t *testing.T) {
	const app, sidecar = v1alpha1.ReporterFieldManager + "/app", v1alpha1.ReporterFieldManager + "/sidecar"
	namespace := c.newNamespace(t)
	pod := c.newPod(t, namespace, "db-0")
	named := func(name string) map[string]any {
		client := checkoutClient("sha256:0", allCapable())
		client["name"] = name
		return client
	}
	c.reportBy(t, app, pod, named("checkout"))
	c.reportBy(t, sidecar, pod, named("payments"))
	if err := c.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	again := c.newPod(t, namespace, "db-0")
	c.reportBy(t, app, again, named("checkout"))
	c.reportBy(t, sidecar, again, named("payments"))
	report := &v1alpha1.ClientReport{}
	if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(again), report); err != nil {
		t.Fatal(err)
	}
	if len(report.OwnerReferences) != 1 || report.OwnerReferences[0].UID != again.UID || len(report.Clients) != 2 {
		t.Errorf("owners are %+v, clients %d, want the new pod and two", report.OwnerReferences, len(report.Clients))
	}
	if err := c.client.Delete(context.Background(), again, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	c.expectGone(t, report)
}
