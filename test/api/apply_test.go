package api

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	applyv1alpha1 "github.com/timeout-operator/timeout-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// TestTwoTeamsApplyPartsOfOnePolicy: upstreams and routes are merged by name, so
// that each team keeps its own and neither takes the other's away.
func TestTwoTeamsApplyPartsOfOnePolicy(t *testing.T) {
	client := cluster.Resource(policies).Namespace("default")
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), "shared", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	apply := func(manager string, upstreams ...*applyv1alpha1.UpstreamApplyConfiguration) *v1alpha1.TimeoutPolicy {
		t.Helper()
		body, err := json.Marshal(applyv1alpha1.TimeoutPolicy("shared", "default").
			WithSpec(applyv1alpha1.TimeoutPolicySpec().WithUpstreams(upstreams...)))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := client.Patch(t.Context(), "shared", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return typed(t, stored)
	}
	upstream := func(name v1alpha1.Label, total v1alpha1.Duration) *applyv1alpha1.UpstreamApplyConfiguration {
		return applyv1alpha1.Upstream().WithName(name).WithHosts(v1alpha1.HostPattern(name)).
			WithTimeouts(applyv1alpha1.Timeouts().WithTotal(total))
	}
	names := func(p *v1alpha1.TimeoutPolicy) []v1alpha1.Label {
		var list []v1alpha1.Label
		for _, u := range p.Spec.Upstreams {
			list = append(list, u.Name)
		}
		slices.Sort(list)
		return list
	}
	apply("team-orders", upstream("orders", "1s"))
	if got := names(apply("team-users", upstream("users", "2s"))); !slices.Equal(got, []v1alpha1.Label{"orders", "users"}) {
		t.Errorf("the second team took the first one's upstream away: %v", got)
	}
	changed := apply("team-orders", upstream("orders", "3s"), upstream("refunds", "1s"))
	if got := names(changed); !slices.Equal(got, []v1alpha1.Label{"orders", "refunds", "users"}) {
		t.Errorf("want the first team's new upstream beside the others, got %v", got)
	}
	if got := names(apply("team-orders", upstream("orders", "3s"))); !slices.Equal(got, []v1alpha1.Label{"orders", "users"}) {
		t.Errorf("want what the first team applies no longer to go, got %v", got)
	}
}
