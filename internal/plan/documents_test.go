package plan_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// nebius/soperator#1867.
//
// Case O02.
func TestThirtyShuffledPoliciesRenderTheSameBytes(t *testing.T) {
	t.Parallel()
	g := newGenerator(1)
	var policies []v1alpha1.TimeoutPolicy
	for i := range 30 {
		policies = append(policies, g.policy(t, "p"+string(rune('a'+i)), time.Hour))
	}
	want := plan.Plan(input(policies...)).Documents
	for range 1000 / 30 {
		got := plan.Plan(input(shuffle(g, policies)...)).Documents
		if len(got) != len(want) {
			t.Fatalf("%d documents, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i].Data, want[i].Data) || got[i].Revision != want[i].Revision {
				t.Fatalf("%s differs", want[i].ConfigMap)
			}
		}
	}
}

// openstack-k8s-operators/lib-common#60. The revision is of the
// content alone: what the API server adds to an object does not change it.
//
// Case O03.
func TestTheRevisionIsOfTheContentAlone(t *testing.T) {
	p := newPolicy(t, "x", 0, simple)
	before := plan.Plan(input(p)).Documents[0]
	p.ResourceVersion, p.Labels, p.Annotations = "77", map[string]string{"a": "b"}, map[string]string{"c": "d"}
	p.Status.ObservedGeneration = 1
	after := plan.Plan(input(p)).Documents[0]
	if before.Revision != after.Revision || !bytes.Equal(before.Data, after.Data) {
		t.Error("metadata and status changed the document")
	}
	doc, err := document.Parse(after.Data)
	if err != nil || doc.Revision != after.Revision {
		t.Errorf("inside is %v, %v", doc, err)
	}
}

// White space is a third of a large document, and nobody reads it.
func TestLargeDocumentsAreWrittenWithoutWhiteSpace(t *testing.T) {
	small := plan.Plan(input(manyPolicies(t, 10, 0, 0)...)).Documents[0]
	large := plan.Plan(input(manyPolicies(t, 1000, 0, 0)...)).Documents[0]
	if bytes.Count(small.Data, []byte("\n")) < 100 || bytes.Count(large.Data, []byte("\n")) != 1 {
		t.Errorf("%d and %d lines", bytes.Count(small.Data, []byte("\n")), bytes.Count(large.Data, []byte("\n")))
	}
	if doc, err := document.Parse(large.Data); err != nil || doc.Revision != large.Revision || len(doc.Policies) != 1000 {
		t.Errorf("got %v", err)
	}
}

func TestTombstones(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in = store(in, plan.Plan(in))
	in.Policies = nil
	in.Now = now.Add(time.Minute)

	written := plan.Plan(in)
	if len(written.Documents) != 1 || !written.Documents[0].Tombstone || written.Documents[0].Current || len(written.Deletions) != 0 {
		t.Fatalf("a document without policies becomes a tombstone: %+v", written.Documents)
	}
	if written.RequeueAfter != 10*time.Minute {
		t.Errorf("a new tombstone is looked at after %s", written.RequeueAfter)
	}
	if doc := documentOf(t, written, "web"); !doc.Tombstone || doc.Client != "web" {
		t.Errorf("got %+v", doc)
	}
	in.Existing = existing(written)

	for _, test := range []struct {
		name    string
		after   time.Duration
		reports []v1alpha1.ClientReport
		deleted bool
		again   time.Duration
	}{
		{"a young one is kept", 9 * time.Minute, nil, false, time.Minute},
		{"an old one that nobody reports goes", 10 * time.Minute, nil, true, 0},
		{"an old one that a pod reports is kept", time.Hour, []v1alpha1.ClientReport{report("a", "web")}, false, 0},
		{"pods of other clients do not keep it", time.Hour, []v1alpha1.ClientReport{report("a", "cart")}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := in
			in.Now, in.Reports = written.Documents[0].Since.Add(test.after), test.reports
			out := plan.Plan(in)
			if deleted := slices.Equal(out.Deletions, []string{"timeouts-web"}); deleted != test.deleted || out.RequeueAfter != test.again {
				t.Errorf("deletions %v, look again after %s", out.Deletions, out.RequeueAfter)
			}
			if !test.deleted && !out.Documents[0].Current {
				t.Error("a tombstone that is kept is not written again")
			}
		})
	}

	in.Policies = []v1alpha1.TimeoutPolicy{newPolicy(t, "y", 0, forWeb)}
	if out := plan.Plan(in); out.Documents[0].Tombstone || out.Documents[0].Annotations[plan.AnnotationTombstone] != "" {
		t.Errorf("a policy that comes back replaces the tombstone: %+v", out.Documents)
	}
}

func TestTheTombstoneOfTheNamespaceIsKeptForClientsWithoutADocument(t *testing.T) {
	in := input(newPolicy(t, "wide", 0, simple), newPolicy(t, "x", 0, forWeb))
	in = store(in, plan.Plan(in))
	in.Policies = in.Policies[1:]
	in = store(in, plan.Plan(in))
	in.Now = now.Add(time.Hour)
	in.Reports = []v1alpha1.ClientReport{report("a", "web")}
	if out := plan.Plan(in); !slices.Equal(out.Deletions, []string{"timeouts"}) {
		t.Errorf("a client with a document of its own does not need it: %v", out.Deletions)
	}
	in.Reports = append(in.Reports, report("b", "nameless"))
	if out := plan.Plan(in); len(out.Deletions) != 0 {
		t.Errorf("a client without one does: %v", out.Deletions)
	}
}

func TestADisabledPolicyLeavesATombstone(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in = store(in, plan.Plan(in))
	in.Policies[0].Spec.Mode = v1alpha1.ModeDisabled
	if out := plan.Plan(in); len(out.Documents) != 1 || !out.Documents[0].Tombstone {
		t.Errorf("got %+v", out.Documents)
	}
}

func TestConfigMapsOfOthersAreNeverTouched(t *testing.T) {
	in := input()
	in.Existing = []plan.ExistingDocument{
		{ConfigMap: "timeouts-web", Foreign: true},
		{ConfigMap: "timeouts", Foreign: true},
		{ConfigMap: "something-else", Client: "web"},
	}
	if out := plan.Plan(in); len(out.Documents)+len(out.Deletions) != 0 {
		t.Errorf("got %+v, %v", out.Documents, out.Deletions)
	}
}

func TestSinceIsWhenTheRevisionWasWrittenFirst(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	first := plan.Plan(in)
	in = store(in, first)
	in.Now = now.Add(time.Hour)
	if d := plan.Plan(in).Documents[0]; !d.Since.Equal(now) || !reflect.DeepEqual(d.Annotations, first.Documents[0].Annotations) {
		t.Errorf("the same revision: since %s", d.Since)
	}
	in.Policies[0].Generation = 2
	if d := plan.Plan(in).Documents[0]; !d.Since.Equal(in.Now) {
		t.Errorf("a new revision: since %s", d.Since)
	}
}

func TestServiceRefsAreListedOnceAndInOrder(t *testing.T) {
	refs := plan.ServiceRefs([]v1alpha1.TimeoutPolicy{
		newPolicy(t, "a", 0, `{upstreams: [{name: b, service: {name: b}}, {name: a, service: {name: a, namespace: sales}}, {name: h, hosts: [h.example.com]}]}`),
		newPolicy(t, "b", 0, `{upstreams: [{name: b, service: {name: b, namespace: shop}}]}`),
	})
	if len(refs) != 2 || refs[0].String() != "sales/a" || refs[1].String() != "shop/b" {
		t.Errorf("got %v", refs)
	}
}

func TestEventsTellOfChangesOnly(t *testing.T) {
	in := input(newPolicy(t, "older", time.Hour, simple), newPolicy(t, "x", 0, simple))
	out := plan.Plan(in)
	var got []string
	for _, e := range out.Events {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		got = append(got, e.Policy+" "+kind+" "+e.Reason)
	}
	want := []string{"older Normal Programmed", "x Warning Conflicted", "x Warning Overridden"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	in = store(in, out)
	if again := plan.Plan(in).Events; len(again) != 0 {
		t.Errorf("nothing changed, got %v", again)
	}
	in.Policies = in.Policies[1:]
	out = plan.Plan(in)
	if len(out.Events) != 2 || out.Events[0].Reason != "Accepted" || out.Events[0].Warning || out.Events[1].Reason != "Programmed" {
		t.Errorf("the conflict is over, got %+v", out.Events)
	}
}
