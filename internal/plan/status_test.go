package plan_test

import (
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// One edit is one status to write, however many policies share the document.
func TestAnEditChangesTheStatusOfItsOwnPolicyOnly(t *testing.T) {
	in := input(manyPolicies(t, 20, 0, 0)...)
	in.Reports = []v1alpha1.ClientReport{report("web-1", "web", says("p0001", v1alpha1.PolicyApplied))}
	first := plan.Plan(in)
	in = store(in, first)
	in.Now = in.Now.Add(time.Minute)
	total := v1alpha1.Duration("7s")
	in.Policies[3].Spec.Upstreams[0].Timeouts.Total = &total
	in.Policies[3].Generation++
	second := plan.Plan(in)
	if second.Documents[0].Revision == first.Documents[0].Revision {
		t.Fatal("the edit is not in the document")
	}
	for i, s := range second.Statuses {
		if edited := s.Name == in.Policies[3].Name; s.Changed != edited {
			t.Errorf("the status of %s is changed: %t", s.Name, s.Changed)
		} else if !edited && s.Status.Clients[0].Revision != first.Statuses[i].Status.Clients[0].Revision {
			t.Errorf("the status of %s has a revision that is not stored", s.Name)
		}
	}
	if got := statusOf(t, second, in.Policies[3].Name); got.Clients[0].Revision != second.Documents[0].Revision {
		t.Errorf("the status of the edited policy says revision %s, the document is %s", got.Clients[0].Revision, second.Documents[0].Revision)
	}
}
