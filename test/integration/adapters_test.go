package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// workload is a pod that runs the client library. The test carries documents to
// it, and its reports to the API server, in place of kubelet and time.
type workload struct {
	cluster *cluster
	pod     *corev1.Pod
	client  *clientlib.Client
	updates chan source.Update
	taken   chan struct{}

	mu   sync.Mutex
	last report.Client
}

// Run implements source.Source.
func (w *workload) Run(ctx context.Context, sink func(source.Update)) error {
	for {
		select {
		case u := <-w.updates:
			sink(u)
			w.taken <- struct{}{}
		case <-ctx.Done():
			return nil
		}
	}
}

// Update implements clientlib.Reporter.
func (w *workload) Update(_ string, c report.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = c
}

// newWorkload starts a client of a name with the stored document and adapters.
func (c *cluster) newWorkload(t *testing.T, namespace, pod, name string, adapters ...capability.Record) *workload {
	t.Helper()
	w := &workload{cluster: c, pod: c.newPod(t, namespace, pod), updates: make(chan source.Update, 1), taken: make(chan struct{}, 1)}
	w.updates <- w.stored(t, name)
	client, err := clientlib.New(t.Context(), name, clientlib.WithSource(w), clientlib.WithReporter(w), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	<-w.taken
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	w.client = client
	for _, record := range adapters {
		client.UseAdapter(record)
	}
	return w
}

// stored is the document of a client as a mount shows it.
func (w *workload) stored(t *testing.T, name string) source.Update {
	t.Helper()
	doc, _, err := w.cluster.document(w.pod.Namespace, "timeouts-"+name)
	if err != nil {
		t.Fatal(err)
	}
	return source.Update{Document: doc, Delivery: source.DeliveryMount}
}

// reload brings the stored document to the client.
func (w *workload) reload(t *testing.T) {
	t.Helper()
	w.updates <- w.stored(t, w.client.Name())
	<-w.taken
}

// report tells the cluster, with the pod's own token, what the client says.
func (w *workload) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	text, err := json.Marshal(w.last)
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]any{}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	w.cluster.reportAs(t, w.pod, said)
}

// What an adapter cannot do is on the status of the policy that asks for it, said
// by real clients with the records that ship.
func TestWhatAdaptersLackShowsOnTheStatus(t *testing.T) {
	shared.startReady(t, quick)
	t.Run("a refused document", refusedDocument)
	t.Run("dead kinds", deadKinds)
}

// The client checkout calls by net/http and by gRPC, whose connections are not
// made call by call.
func refusedDocument(t *testing.T) {
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout", func(p *v1alpha1.TimeoutPolicy) { p.Spec.OnUnsupported = v1alpha1.UnsupportedReject })
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	w := shared.newWorkload(t, namespace, "checkout-1", "checkout", capability.NetHTTP(), capability.GRPC())
	w.report(t)
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	good := shared.revision(t, namespace, "timeouts-checkout")

	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) {
		p.Spec.Upstreams[0].Timeouts.Total, p.Spec.Upstreams[0].Timeouts.Connect = duration("2s"), duration("100ms")
	})
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
	w.reload(t)
	if s := w.client.Status(); s.State != clientlib.StateStale || s.Revision != good {
		t.Fatalf("the client is %s with revision %s, want Stale with the old one", s.State, s.Revision)
	}
	w.report(t)
	message := shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionFalse, v1alpha1.ReasonRejected)
	for _, word := range []string{"client checkout", "pod checkout-1", "adapter grpc", "timeouts.connect"} {
		if !strings.Contains(message, word) {
			t.Errorf("Acknowledged says %q and does not name %s", message, word)
		}
	}
	message = shared.expectCondition(t, policy, v1alpha1.ConditionCapable, metav1.ConditionFalse, v1alpha1.ReasonMissingCapability)
	if want := "timeouts.connect of orders (TimeoutConnect, 1 clients, such as checkout-1/grpc)"; !strings.Contains(message, want) {
		t.Errorf("Capable says %q, want %q", message, want)
	}
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		want := []v1alpha1.UnsupportedField{{Upstream: "orders", Field: "timeouts.connect", Capability: "TimeoutConnect", Clients: 1, Example: "checkout-1/grpc"}}
		if !reflect.DeepEqual(s.Unsupported, want) || s.Clients[0].Rejected != 1 || s.Summary.Capable != "0/1" {
			return fmt.Errorf("unsupported %+v, clients %+v, capable %s", s.Unsupported, s.Clients, s.Summary.Capable)
		}
		return nil
	})

	// The knob taken away, the document is taken.
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Connect = nil })
	shared.expectDocument(t, namespace, "timeouts-checkout", func(doc *document.Document) error {
		if doc.Upstreams[0].Timeouts.Connect != nil {
			return fmt.Errorf("connect is still there")
		}
		return nil
	})
	w.reload(t)
	w.report(t)
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// Of three clients one never ends with WriteTimeout, one does, and one has it as
// an AttemptTimeout.
func deadKinds(t *testing.T) {
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout", func(p *v1alpha1.TimeoutPolicy) {
		attempts := int32(2)
		p.Spec.Clients = []v1alpha1.ClientName{"checkout"}
		p.Spec.Upstreams[0].Retry = &v1alpha1.Retry{MaxAttempts: &attempts, RetryableKinds: []v1alpha1.FailureKind{"AttemptTimeout", "WriteTimeout"}}
	})
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	coarse := capability.NetHTTP()
	coarse.Adapter = "coarse"
	coarse.Collapse = map[failure.Kind]failure.Kind{failure.WriteTimeout: failure.AttemptTimeout}
	for pod, record := range map[string]capability.Record{"a-dead": capability.NetHTTP(), "b-emits": capability.FastHTTP(), "c-collapses": coarse} {
		shared.newWorkload(t, namespace, pod, "checkout", record).report(t)
	}
	shared.expectStatus(t, policy, func(s *v1alpha1.TimeoutPolicyStatus) error {
		want := []v1alpha1.DeadRetryableKind{{Upstream: "orders", Kind: "WriteTimeout", Clients: 1, Example: "a-dead/nethttp"}}
		if !reflect.DeepEqual(s.DeadRetryableKinds, want) || s.Summary.Capable != "2/3" {
			return fmt.Errorf("dead kinds %+v, capable %s", s.DeadRetryableKinds, s.Summary.Capable)
		}
		return nil
	})
	message := shared.expectCondition(t, policy, v1alpha1.ConditionCapable, metav1.ConditionFalse, v1alpha1.ReasonMissingCapability)
	if want := "retryable kind WriteTimeout of orders never occurs (1 clients, such as a-dead/nethttp)"; !strings.Contains(message, want) {
		t.Errorf("Capable says %q, want %q", message, want)
	}
}
