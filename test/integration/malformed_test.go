package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// withLaxSchema lets anything be stored while f runs.
func (c *cluster) withLaxSchema(t *testing.T, crd string, f func()) {
	t.Helper()
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	definition.SetName(crd)
	var strict map[string]any
	setSchema := func(schema map[string]any) {
		edit(t, c, definition, func(d *unstructured.Unstructured) {
			versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
			version := versions[0].(map[string]any)
			if strict == nil {
				strict, _, _ = unstructured.NestedMap(version, "schema")
			}
			version["schema"] = schema
			if err := unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"); err != nil {
				t.Fatal(err)
			}
		})
	}
	setSchema(map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
	f()
	setSchema(strict)
}

// store writes an object with content that only a lax schema lets in.
func (c *cluster) store(t *testing.T, kind, namespace, name, content string) {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(content), &fields); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	// The lax schema takes a moment.
	eventually(t, func() error {
		return c.client.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership)
	})
}

// conditionOf reads a condition of an object that the Go types cannot decode.
func (c *cluster) expectRawCondition(t *testing.T, namespace, name, kind string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	message := ""
	eventually(t, func() error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TimeoutPolicy"))
		if err := c.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err
		}
		raw, err := json.Marshal(object.Object["status"])
		if err != nil {
			return err
		}
		var stored v1alpha1.TimeoutPolicyStatus
		if err := json.Unmarshal(raw, &stored); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(stored.Conditions, kind)
		if condition == nil || condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("condition %s of %s is %+v, want %s/%s", kind, name, condition, status, reason)
		}
		message = condition.Message
		return nil
	})
	return message
}

// expectInvalidEvent waits for the warning about a malformed policy and returns
// what it says.
func (c *cluster) expectInvalidEvent(t *testing.T, namespace, name string) string {
	t.Helper()
	message := ""
	eventually(t, func() error {
		var events corev1.EventList
		if err := c.client.List(context.Background(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Reason == v1alpha1.ReasonInvalid && event.Type == corev1.EventTypeWarning {
				message = event.Message
				return nil
			}
		}
		return fmt.Errorf("no event about %s", name)
	})
	return message
}

// TestStoredNonsenseStopsNobodyElse: A02, A03, A04. What an older or a laxer
// schema let in is refused on its own status, and everything else goes on.
func TestStoredNonsenseStopsNobodyElse(t *testing.T) {
	c := newScratch(t)
	namespace := c.newNamespace(t)
	before := newPolicy(namespace, "before")
	c.create(t, before)
	// This one was good and applied, and goes bad while the operator is away.
	turned := newPolicy(namespace, "turned", func(p *v1alpha1.TimeoutPolicy) { p.Spec.Clients = []v1alpha1.ClientName{"turned"} })
	c.create(t, turned)
	first := c.startReady(t)
	c.expectProgrammed(t, turned)
	first.end(t)

	upstreams := func(timeouts string) string {
		return `{"spec":{"clients":["other"],"upstreams":[{"name":"a","hosts":["a.example.com"],"timeouts":` + timeouts + `}]}}`
	}
	nonsense := []struct {
		name, content, message string
		// silent ones have fields of a type that the rules of the schema cannot
		// be asked about: the API server refuses their status too.
		silent bool
	}{
		{"days", upstreams(`{"total":"1d"}`), "total", false},
		{"millimetres", upstreams(`{"total":"1mm"}`), "total", false},
		{"overflow", upstreams(`{"total":"2562047h48m"}`), "total", false},
		{"attempts", `{"spec":{"upstreams":[{"name":"a","hosts":["a.example.com"],"retry":{"maxAttempts":"many"}}]}}`, "cannot be read", true},
		{"mode", `{"spec":{"mode":7,"upstreams":[{"name":"a","hosts":["a.example.com"]}]}}`, "cannot be read", false},
		{"number", upstreams(`{"total":600}`), "cannot be read", true},
		{"list", `{"spec":{"clients":"checkout","upstreams":{}}}`, "cannot be read", true},
		{"text", `{"spec":"all of it"}`, "cannot be read", true},
		{"nothing", `{}`, "upstreams", false},
		{"strange-status", `{"spec":{"upstreams":[]},"status":"none"}`, "upstreams", false},
	}
	c.withLaxSchema(t, "timeoutpolicies.timeout-operator.dev", func() {
		for _, policy := range nonsense {
			c.store(t, "TimeoutPolicy", namespace, policy.name, policy.content)
		}
		c.store(t, "TimeoutPolicy", namespace, "turned", `{"spec":{"clients":["turned"],"upstreams":[{"name":"orders","hosts":["orders.example.com"],"timeouts":{"total":1}}]}}`)
	})
	c.withLaxSchema(t, "clientreports.timeout-operator.dev", func() {
		c.allowReportsOfAnybody(t)
		c.store(t, "ClientReport", namespace, "nonsense", `{"clients":"none","library":7}`)
	})

	p := c.startReady(t, quick)
	c.expectProgrammed(t, before)
	after := newPolicy(namespace, "after", func(p *v1alpha1.TimeoutPolicy) { p.Spec.Clients = []v1alpha1.ClientName{"late"} })
	c.create(t, after)
	c.expectProgrammed(t, after)
	for _, policy := range nonsense {
		var message string
		if policy.silent {
			message = c.expectInvalidEvent(t, namespace, policy.name)
		} else {
			message = c.expectRawCondition(t, namespace, policy.name, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
		}
		if !strings.Contains(message, policy.message) {
			t.Errorf("%s: the message does not say %q: %s", policy.name, policy.message, message)
		}
	}
	// The document of the one that turned bad stays as it was.
	c.expectInvalidEvent(t, namespace, "turned")
	c.expectDocument(t, namespace, "timeouts-turned", total("orders", "1s"))

	// A03: one goes bad while the operator runs.
	c.withLaxSchema(t, "timeoutpolicies.timeout-operator.dev", func() {
		c.store(t, "TimeoutPolicy", namespace, "after", `{"spec":{"clients":["late"],"upstreams":[{"name":"orders","hosts":["orders.example.com"],"timeouts":{"total":true}}]}}`)
	})
	c.expectInvalidEvent(t, namespace, "after")
	edit(t, c, before, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	c.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
	c.expectDocument(t, namespace, "timeouts-late", total("orders", "1s"))
	p.eventuallyReady(t)
	p.settle(t)
	// A31: a status that cannot be written is not tried again and again.
	p.requests.reset()
	edit(t, c, before, func(p *v1alpha1.TimeoutPolicy) { p.Annotations = map[string]string{"example.com/look": "again"} })
	p.settle(t)
	if writes := p.requests.writes("/status"); len(writes) != 0 {
		t.Errorf("wrote %v", writes)
	}
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
}

// allowReportsOfAnybody takes away the admission of reports, which is tested
// elsewhere.
func (c *cluster) allowReportsOfAnybody(t *testing.T) {
	t.Helper()
	if _, err := c.kubectl("delete", "validatingadmissionpolicybinding", "timeout-operator-reports"); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenDocumentInAConfigMapIsReplaced: whatever bytes are there.
func TestBrokenDocumentInAConfigMapIsReplaced(t *testing.T) {
	namespace := shared.newNamespace(t)
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "timeouts-checkout", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}},
		Data:       map[string]string{v1alpha1.DocumentKey: `{"policies": 7`},
	}
	shared.create(t, configMap)
	shared.startReady(t)
	shared.create(t, newPolicy(namespace, "checkout"))
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
}
