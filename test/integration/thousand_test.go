package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// TestOneMalformedPolicyAmongAThousand holds a crowded namespace to the promise
// that one bad object never stops the others.
func TestOneMalformedPolicyAmongAThousand(t *testing.T) {
	const policies = 1000
	c := newScratch(t)
	namespace := c.newNamespace(t)
	c.withLaxSchema(t, "timeoutpolicies.timeout-operator.dev", func() {
		c.store(t, "TimeoutPolicy", namespace, "malformed",
			`{"spec":{"upstreams":[{"name":"a","hosts":["a.example.com"],"timeouts":{"total":"1d"}}]}}`)
	})
	inParallel(policies-1, func(i int) {
		c.create(t, newPolicy(namespace, fmt.Sprintf("policy-%03d", i), func(p *v1alpha1.TimeoutPolicy) {
			p.Spec.Upstreams[0].Name = v1alpha1.Label(fmt.Sprintf("upstream-%03d", i))
			p.Spec.Upstreams[0].Hosts = []v1alpha1.HostPattern{v1alpha1.HostPattern(fmt.Sprintf("upstream-%03d.example.com", i))}
		}))
	})
	c.startReady(t)

	// Looked at once a second: each look reads a thousand objects.
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, 3*patience, true, func(ctx context.Context) (bool, error) {
		var list v1alpha1.TimeoutPolicyList
		if err := c.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		programmed := 0
		for _, p := range list.Items {
			if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed) {
				programmed++
			}
		}
		last = fmt.Errorf("%d of %d policies are programmed, want all but one", programmed, len(list.Items))
		return programmed == policies-1, nil
	})
	if err != nil {
		t.Fatal(err, last)
	}
	c.expectRawCondition(t, namespace, "malformed", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
	c.expectDocument(t, namespace, "timeouts-checkout", func(doc *document.Document) error {
		if len(doc.Upstreams) != policies-1 {
			return fmt.Errorf("the document has %d upstreams, want %d", len(doc.Upstreams), policies-1)
		}
		return nil
	})
}
