package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/operator"
)

func TestPolicyTravelsToTheDocumentOfItsClient(t *testing.T) {
	shared.startReady(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)

	configMap := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	if configMap.Labels[v1alpha1.LabelManagedBy] != v1alpha1.OperatorFieldManager || configMap.Labels[v1alpha1.LabelDocument] != "checkout" {
		t.Errorf("labels are %v", configMap.Labels)
	}
	if configMap.Immutable != nil || len(configMap.Data) != 1 {
		t.Errorf("immutable is %v, keys are %v", configMap.Immutable, slices.Collect(maps.Keys(configMap.Data)))
	}
	doc, _, err := shared.document(namespace, "timeouts-checkout")
	if err != nil {
		t.Fatal(err)
	}
	if got := configMap.Annotations[v1alpha1.AnnotationRevision]; got != doc.Revision {
		t.Errorf("the annotation says revision %s, the document %s", got, doc.Revision)
	}
	shared.expectProgrammed(t, policy)
	shared.expectCondition(t, policy, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonNoClients)

	edited := time.Now()
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
	t.Logf("measured: from edit to document %s", time.Since(edited).Round(time.Millisecond))
	shared.expectProgrammed(t, policy)

	shared.delete(t, policy)
	shared.expectDocument(t, namespace, "timeouts-checkout", tombstone)
}

func TestTombstoneGoesWhenNobodyUsesIt(t *testing.T) {
	shared.startReady(t, func(o *operator.Options) { o.Plan.TombstoneFor = time.Second })
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	configMap := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	shared.delete(t, policy)
	shared.expectGone(t, configMap)
}

func TestPolicyWithoutClientsIsForTheWholeNamespace(t *testing.T) {
	shared.startReady(t)
	namespace := shared.newNamespace(t)
	shared.create(t, newPolicy(namespace, "everyone", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Clients = nil
		p.Spec.Upstreams[0].Timeouts = &v1alpha1.Timeouts{Total: duration("130s")}
	}))
	shared.expectDocument(t, namespace, "timeouts", total("orders", "2m10s"))

	// A22: a policy that sets another field leaves the total as it is.
	attempts := int32(3)
	shared.create(t, newPolicy(namespace, "checkout", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Upstreams[0].Rules = v1alpha1.Rules{Retry: &v1alpha1.Retry{MaxAttempts: &attempts}}
	}))
	shared.expectDocument(t, namespace, "timeouts-checkout", func(doc *document.Document) error {
		if err := total("orders", "2m10s")(doc); err != nil {
			return err
		}
		upstream := doc.Upstreams[0]
		if upstream.Retry == nil || *upstream.Retry.MaxAttempts != 3 {
			return fmt.Errorf("no three attempts in %+v", upstream)
		}
		if got, want := upstream.Provenance["timeouts.total"], namespace+"/everyone@1"; got != want {
			return fmt.Errorf("timeouts.total comes from %q, want %q", got, want)
		}
		return nil
	})
}

// Case O30.
func TestHandsOnDocumentsAreRepaired(t *testing.T) {
	p := shared.startReady(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	original := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	shared.expectProgrammed(t, policy)
	repaired := func() error {
		_, configMap, err := shared.document(namespace, "timeouts-checkout")
		switch {
		case err != nil:
			return err
		case configMap.Data[v1alpha1.DocumentKey] != original.Data[v1alpha1.DocumentKey]:
			return errors.New("the document differs")
		case configMap.Labels[v1alpha1.LabelDocument] != "checkout" || configMap.Annotations[v1alpha1.AnnotationRevision] != original.Annotations[v1alpha1.AnnotationRevision]:
			return fmt.Errorf("labels %v and annotations %v differ", configMap.Labels, configMap.Annotations)
		}
		return nil
	}
	for i, tampering := range []struct {
		name string
		act  func(t *testing.T)
	}{
		{"document edited", func(t *testing.T) {
			edit(t, shared, &corev1.ConfigMap{ObjectMeta: original.ObjectMeta}, func(c *corev1.ConfigMap) { c.Data[v1alpha1.DocumentKey] = "{}" })
		}},
		{"key removed", func(t *testing.T) {
			edit(t, shared, &corev1.ConfigMap{ObjectMeta: original.ObjectMeta}, func(c *corev1.ConfigMap) { c.Data = nil })
		}},
		{"label and annotation changed", func(t *testing.T) {
			edit(t, shared, &corev1.ConfigMap{ObjectMeta: original.ObjectMeta}, func(c *corev1.ConfigMap) {
				c.Labels[v1alpha1.LabelDocument] = "other"
				c.Annotations[v1alpha1.AnnotationRevision] = "other"
			})
		}},
		{"deleted", func(t *testing.T) {
			shared.delete(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: original.Name}})
		}},
	} {
		t.Run(tampering.name, func(t *testing.T) {
			tampering.act(t)
			done := time.Now()
			eventually(t, repaired)
			t.Logf("measured: %s, repaired after %s", tampering.name, time.Since(done).Round(time.Millisecond))
			p.expectMetric(t, "timeouts_operator_drift_repairs_total", float64(i+1))
		})
	}
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	p := shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 50 * time.Millisecond })
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.create(t, newPolicy(namespace, "everyone", func(p *v1alpha1.TimeoutPolicy) { p.Spec.Clients = nil }))
	shared.expectProgrammed(t, policy)
	p.settle(t)

	// O30: an annotation leads to a reconcile though the generation stays.
	p.requests.reset()
	before := reconciles(t)
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Annotations = map[string]string{"example.com/look": "again"} })
	eventually(t, func() error {
		if reconciles(t) == before {
			return errors.New("no reconcile")
		}
		return nil
	})
	p.settle(t)
	if writes := p.requests.writes(); len(writes) != 0 {
		t.Errorf("a reconcile with nothing to do wrote %v", writes)
	}

	// O01: and when nothing happens at all, not even a reconcile does.
	before = reconciles(t)
	consistently(t, 2*time.Second, func() error {
		if n, writes := reconciles(t), p.requests.writes(); n != before || len(writes) != 0 {
			return fmt.Errorf("%v reconciles, writes %v", n-before, writes)
		}
		return nil
	})
}

func TestOneEditCostsOneDocumentAndOneStatus(t *testing.T) {
	p := shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 50 * time.Millisecond })
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	p.settle(t)
	p.requests.reset()
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("3s") })
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "3s"))
	shared.expectProgrammed(t, policy)
	p.settle(t)
	if writes := p.requests.writes("/configmaps/"); len(writes) != 1 {
		t.Errorf("documents: %v", writes)
	}
	if writes := p.requests.writes("/status"); len(writes) != 1 {
		t.Errorf("statuses: %v", writes)
	}
}

func TestStatusThatSomebodyElseWroteIsPutRight(t *testing.T) {
	shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 50 * time.Millisecond })
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	eventually(t, func() error {
		if err := shared.client.Get(context.Background(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		policy.Status = v1alpha1.TimeoutPolicyStatus{}
		return shared.client.Status().Update(context.Background(), policy)
	})
	shared.expectProgrammed(t, policy)
}

// Case A20.
func TestOlderOfTwoConflictingPoliciesWins(t *testing.T) {
	shared.startReady(t)
	namespace := shared.newNamespace(t)
	winner := newPolicy(namespace, "b-first")
	shared.create(t, winner)
	shared.expectProgrammed(t, winner)
	shared.waitForNextSecond(t, winner)
	loser := newPolicy(namespace, "a-second", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Upstreams[0].Timeouts.Total = duration("9s")
		p.Spec.Upstreams = append(p.Spec.Upstreams, v1alpha1.Upstream{
			Name: "stock", Hosts: []v1alpha1.HostPattern{"stock.example.com"},
			Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: duration("5s")}},
		})
	})
	shared.create(t, loser)
	message := shared.expectCondition(t, loser, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflicted)
	if !strings.Contains(message, "b-first") || !strings.Contains(message, "orders") {
		t.Errorf("the message names neither winner nor upstream: %s", message)
	}
	shared.expectCondition(t, winner, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	shared.expectDocument(t, namespace, "timeouts-checkout", func(doc *document.Document) error {
		return errors.Join(total("orders", "1s")(doc), total("stock", "5s")(doc))
	})
	shared.delete(t, winner)
	shared.expectCondition(t, loser, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "9s"))
}

func TestServiceThatAppearsLaterResolves(t *testing.T) {
	shared.startReady(t)
	namespace, elsewhere := shared.newNamespace(t), shared.newNamespace(t)
	port := int32(8080)
	policy := newPolicy(namespace, "checkout", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Upstreams[0].Hosts = nil
		p.Spec.Upstreams[0].Service = &v1alpha1.ServiceReference{Name: "orders", Namespace: v1alpha1.Label(elsewhere), Port: &port}
	})
	shared.create(t, policy)
	shared.expectCondition(t, policy, v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonServiceNotFound)
	// The rules hold all the same.
	shared.expectProgrammed(t, policy)

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "orders"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	shared.create(t, service)
	shared.expectCondition(t, policy, v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonPortNotFound)
	edit(t, shared, service, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 8080}} })
	shared.expectCondition(t, policy, v1alpha1.ConditionResolvedRefs, metav1.ConditionTrue, v1alpha1.ReasonResolvedRefs)
	shared.delete(t, service)
	shared.expectCondition(t, policy, v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonServiceNotFound)
}

func TestConfigMapOfSomebodyElseIsNeverOverwritten(t *testing.T) {
	shared.startReady(t)
	namespace := shared.newNamespace(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "timeouts-checkout"}, Data: map[string]string{"mine": "yes"}}
	shared.create(t, foreign)
	policy, other := newPolicy(namespace, "checkout"), newPolicy(namespace, "other", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Clients = []v1alpha1.ClientName{"other"}
	})
	shared.create(t, policy)
	shared.create(t, other)
	message := shared.expectCondition(t, policy, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
	if !strings.Contains(message, "timeouts-checkout") {
		t.Errorf("the message does not name the ConfigMap: %s", message)
	}
	shared.expectProgrammed(t, other)
	resourceVersion := foreign.ResourceVersion
	if err := shared.client.Get(context.Background(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Fatal(err)
	}
	if foreign.ResourceVersion != resourceVersion {
		t.Errorf("it was written: %+v", foreign)
	}

	// The label hands it over; what else it holds stays.
	edit(t, shared, foreign, func(c *corev1.ConfigMap) {
		c.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}
	})
	configMap := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	if configMap.Data["mine"] != "yes" {
		t.Errorf("somebody else's key is gone: %v", configMap.Data)
	}
	shared.expectProgrammed(t, policy)
}

// Case R17.
func TestOneDocumentThatCannotBeWrittenStopsNoOther(t *testing.T) {
	p := shared.startReady(t)
	namespace := shared.newNamespace(t)
	stuck, other := newPolicy(namespace, "a-stuck"), newPolicy(namespace, "b-other", func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Clients = []v1alpha1.ClientName{"other"}
	})
	shared.create(t, stuck)
	shared.create(t, other)
	configMap := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	shared.expectProgrammed(t, other)
	edit(t, shared, configMap, func(c *corev1.ConfigMap) { c.Immutable = new(true) })
	for _, policy := range []*v1alpha1.TimeoutPolicy{stuck, other} {
		edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("7s") })
	}
	message := shared.expectCondition(t, stuck, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
	if !strings.Contains(message, "timeouts-checkout") || !strings.Contains(message, "immutable") {
		t.Errorf("the message names neither ConfigMap nor cause: %s", message)
	}
	shared.expectDocument(t, namespace, "timeouts-other", total("orders", "7s"))
	shared.expectProgrammed(t, other)
	shared.expectEvents(t, stuck, v1alpha1.ReasonRenderFailed)
	if p.metric(t, `timeouts_operator_apply_total{result="failed"}`) == 0 {
		t.Error("the failure is not counted")
	}
	shared.delete(t, configMap)
	shared.expectProgrammed(t, stuck)
}

// Case O02.
func TestThirtyPoliciesAlwaysGiveTheSameDocuments(t *testing.T) {
	p := shared.startReady(t)
	namespace := shared.newNamespace(t)
	policies := make([]*v1alpha1.TimeoutPolicy, 30)
	for i := range policies {
		policies[i] = newPolicy(namespace, fmt.Sprintf("policy-%02d", (i*7)%30), func(p *v1alpha1.TimeoutPolicy) {
			if i%3 == 0 {
				p.Spec.Clients = nil
			}
			p.Spec.Upstreams[0].Name = v1alpha1.Label(fmt.Sprintf("upstream-%d", i))
			p.Spec.Upstreams[0].Hosts = []v1alpha1.HostPattern{v1alpha1.HostPattern(fmt.Sprintf("host-%d.example.com", i%20)), "*.example.org"}
		})
		shared.create(t, policies[i])
	}
	bytes := func() (string, error) {
		var configMaps corev1.ConfigMapList
		err := shared.client.List(context.Background(), &configMaps, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelDocument})
		var all strings.Builder
		for _, configMap := range configMaps.Items {
			all.WriteString(configMap.Name + configMap.Data[v1alpha1.DocumentKey])
		}
		return all.String(), err
	}
	for _, policy := range policies {
		shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
			if s.ObservedGeneration != 1 {
				return errors.New("no status")
			}
			return nil
		})
	}
	p.settle(t)
	first, err := bytes()
	if err != nil || !strings.Contains(first, "timeouts-checkout") {
		t.Fatalf("%v in %s", err, first)
	}
	p.end(t)

	// Another process says the same, and a third one has nothing to write.
	if err := shared.client.DeleteAllOf(context.Background(), &corev1.ConfigMap{}, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelDocument}); err != nil {
		t.Fatal(err)
	}
	second := shared.startReady(t)
	eventually(t, func() error {
		again, err := bytes()
		if err == nil && again != first {
			err = errors.New("the documents differ")
		}
		return err
	})
	second.settle(t)
	second.end(t)
	third := shared.startReady(t)
	third.settle(t)
	if writes := third.requests.writes("/" + namespace + "/"); len(writes) != 0 {
		t.Errorf("a restart wrote %v", writes)
	}
}

// Case O05.
func TestTwentyQuickEditsEndWithTheLast(t *testing.T) {
	p := shared.startReady(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	for i := range 20 {
		edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) {
			p.Spec.Upstreams[0].Timeouts.Total = duration(v1alpha1.Duration(fmt.Sprintf("%ds", i+2)))
		})
	}
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "21s"))
	shared.expectProgrammed(t, policy)
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		if s.ObservedGeneration != policy.Generation {
			return fmt.Errorf("the status is of generation %d, not %d", s.ObservedGeneration, policy.Generation)
		}
		return nil
	})
	p.settle(t)
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
	if noise := p.lines.with("object has been modified"); len(noise) != 0 {
		t.Errorf("conflicts: %v", noise)
	}
}

func TestEventsComeOnceAfterTheStatus(t *testing.T) {
	p := shared.startReady(t, func(o *operator.Options) { o.ReportDebounce = 50 * time.Millisecond })
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	shared.expectEvents(t, policy, v1alpha1.ReasonProgrammed)
	p.settle(t)
	if reasons := shared.expectEvents(t, policy); len(reasons) != 1 {
		t.Errorf("events are %v, want one", reasons)
	}
}

func TestOnlyWatchedNamespacesAreServed(t *testing.T) {
	first, second, unwatched := shared.newNamespace(t), shared.newNamespace(t), shared.newNamespace(t)
	p := shared.startReady(t, func(o *operator.Options) { o.Namespaces = []string{first, second} })
	for _, namespace := range []string{unwatched, first, second} {
		shared.create(t, newPolicy(namespace, "checkout", func(p *v1alpha1.TimeoutPolicy) {
			p.Spec.Upstreams[0].Service = &v1alpha1.ServiceReference{Name: "orders", Namespace: v1alpha1.Label(unwatched)}
		}))
	}
	for _, namespace := range []string{first, second} {
		policy := newPolicy(namespace, "checkout")
		shared.expectProgrammed(t, policy)
		// Services of a namespace that cannot be seen are not called missing.
		shared.expectCondition(t, policy, v1alpha1.ConditionResolvedRefs, metav1.ConditionTrue, v1alpha1.ReasonResolvedRefs)
	}
	p.settle(t)
	if _, _, err := shared.document(unwatched, "timeouts-checkout"); isNotFound(err) != nil {
		t.Errorf("the document of a namespace that is not watched: %v", err)
	}
}

// Cases O11, O36.
func TestNothingTheOperatorOwnsHoldsUpADeletion(t *testing.T) {
	p := shared.startReady(t)
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	p.settle(t)
	var configMaps corev1.ConfigMapList
	if err := shared.client.List(context.Background(), &configMaps, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}); err != nil {
		t.Fatal(err)
	}
	var policies v1alpha1.TimeoutPolicyList
	if err := shared.client.List(context.Background(), &policies); err != nil {
		t.Fatal(err)
	}
	if len(configMaps.Items) == 0 || len(policies.Items) == 0 {
		t.Fatal("nothing to look at")
	}
	for _, object := range configMaps.Items {
		if len(object.Finalizers)+len(object.OwnerReferences) != 0 {
			t.Errorf("%s/%s has finalizers %v and owners %v", object.Namespace, object.Name, object.Finalizers, object.OwnerReferences)
		}
	}
	for _, object := range policies.Items {
		if len(object.Finalizers)+len(object.OwnerReferences) != 0 {
			t.Errorf("%s/%s has finalizers %v and owners %v", object.Namespace, object.Name, object.Finalizers, object.OwnerReferences)
		}
	}
}

// TestNewPolicyIsNotStarvedByABusyFleet: O29. A policy that was there before the
// start is served although other namespaces never come to rest.
func TestNewPolicyIsNotStarvedByABusyFleet(t *testing.T) {
	busy := make([]*v1alpha1.TimeoutPolicy, 20)
	for i := range busy {
		busy[i] = newPolicy(shared.newNamespace(t), "checkout")
		shared.create(t, busy[i])
	}
	policy := newPolicy(shared.newNamespace(t), "checkout")
	shared.create(t, policy)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/busy":"%d"}}}`, n)
			target := busy[n%len(busy)].DeepCopy()
			_ = shared.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
		}
	}()
	defer func() {
		cancel()
		<-done
	}()
	shared.startOperator(t, func(o *operator.Options) { o.Concurrency = 1 })
	shared.expectProgrammed(t, policy)
}
