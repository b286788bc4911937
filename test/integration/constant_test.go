package integration

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Pods mount and watch a ConfigMap by its name, and may list its keys: whatever
// becomes of the policies, it is the same object with the same one key, and can
// be changed. A pod that restarts finds it under the name it always had.
//
// Cases R17, R19, R31.
func TestNameAndKeyOfADocumentStayForItsLife(t *testing.T) {
	shared.startReady(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	first := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))

	check := func(step string, is func(*document.Document) error) {
		t.Helper()
		now := shared.expectDocument(t, namespace, "timeouts-checkout", is)
		keys := slices.Collect(maps.Keys(now.Data))
		if now.UID != first.UID || now.Immutable != nil || !slices.Equal(keys, []string{v1alpha1.DocumentKey}) || len(now.BinaryData) > 0 {
			t.Errorf("%s: uid %s was %s, immutable %v, keys %v", step, now.UID, first.UID, now.Immutable, keys)
		}
		var all corev1.ConfigMapList
		if err := shared.client.List(t.Context(), &all, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}); err != nil {
			t.Fatal(err)
		}
		if len(all.Items) != 1 {
			t.Errorf("%s: %d ConfigMaps with documents, want the one", step, len(all.Items))
		}
	}
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	check("edited", total("orders", "2s"))
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Name = "payments" })
	check("another upstream", total("payments", "2s"))
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Mode = v1alpha1.ModeDisabled })
	check("disabled", tombstone)
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Mode = v1alpha1.ModeEnforce })
	check("enabled", total("payments", "2s"))
	shared.delete(t, policy)
	check("deleted", tombstone)
	again := newPolicy(namespace, "checkout")
	shared.create(t, again)
	check("made anew", total("orders", "1s"))
}
