package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// A key cannot be in data and in binaryData, and an apply takes nothing out of
// what it never owned: whoever moves the document there must not stop its updates.
func TestADocumentInBinaryDataIsPutRight(t *testing.T) {
	p := shared.startReady(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	configMap := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	edit(t, shared, configMap, func(c *corev1.ConfigMap) {
		c.Data = nil
		c.BinaryData = map[string][]byte{v1alpha1.DocumentKey: []byte("{}"), "mine": {0xff}}
	})
	now := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	if _, there := now.BinaryData[v1alpha1.DocumentKey]; there || len(now.BinaryData["mine"]) != 1 {
		t.Errorf("binaryData is %v", now.BinaryData)
	}
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
	shared.expectProgrammed(t, policy)
	if p.metric(t, "timeouts_operator_drift_repairs_total") == 0 {
		t.Error("the repair is not counted")
	}
}
