package plan_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

func statements(r *v1alpha1.ClientReport) []plan.Statement {
	var out []plan.Statement
	for i := range r.Clients {
		out = append(out, plan.NewStatement(&r.Clients[i]))
	}
	return out
}

// TestCountingByAndByIsCountingAtOnce lets pods come, go and change their minds
// while the time goes on: the plan from the census is at every moment the plan
// from the reports themselves.
func TestCountingByAndByIsCountingAtOnce(t *testing.T) {
	for seed := range uint64(8) {
		g := newGenerator(seed)
		in := input(newPolicy(t, "p0", time.Hour, forWeb), newPolicy(t, "p1", time.Hour, `{"upstreams":[{"name":"theirs","hosts":["theirs.example.com"],"timeouts":{"connect":"1s"}}]}`))
		in = store(in, plan.Plan(in))
		written := plan.Plan(in)
		var census plan.Census
		live := map[string]v1alpha1.ClientReport{}
		for step := range 25 {
			in.Now = in.Now.Add(time.Duration(g.IntN(30)) * time.Second)
			for range g.IntN(4) {
				pod := fmt.Sprintf("pod-%02d", g.IntN(12))
				if g.chance(30) {
					delete(live, pod)
					census.Remove(pod)
					continue
				}
				r := report(pod, pick(g, "web", "cart", "other"), g.word(written)...)
				if before, known := live[pod]; known {
					r.CreationTimestamp = before.CreationTimestamp
				} else {
					r.CreationTimestamp.Time = in.Now.Truncate(time.Second)
				}
				live[pod] = r
				census.Set(pod, r.CreationTimestamp.Time, statements(&r))
			}
			if census.Pods() != len(live) {
				t.Fatalf("seed %d, step %d: the census has %d pods, want %d", seed, step, census.Pods(), len(live))
			}
			single, counted := in, in
			for _, r := range live {
				single.Reports = append(single.Reports, r)
			}
			counted.Voices = census.Voices(in.Now, in.Options)
			want, got := plan.Plan(single), plan.Plan(counted)
			if diff := difference(want, got); diff != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, diff)
			}
			if !reflect.DeepEqual(want.Statuses, got.Statuses) || !reflect.DeepEqual(want.Events, got.Events) {
				t.Fatalf("seed %d, step %d: words differ", seed, step)
			}
			if g.chance(50) { // the latches of the status matter too
				in = store(in, want)
			}
		}
	}
}

// TestEqualStatementsAreCountedTogether: what a plan costs does not grow with
// the pods.
func TestEqualStatementsAreCountedTogether(t *testing.T) {
	var census plan.Census
	set := func(i int, revision string) {
		r := report(fmt.Sprintf("pod-%d", i), "web", has(revision), can("nethttp", full))
		census.Set(r.Name, now.Add(-time.Hour), statements(&r))
	}
	for i := range 10_000 {
		set(i, "sha256:old")
	}
	if n := len(census.Voices(now, plan.Options{})); n != 1 {
		t.Errorf("%d voices, want one", n)
	}
	for i := range 5_000 {
		set(i, "sha256:new")
	}
	if n := len(census.Voices(now, plan.Options{})); n != 2 {
		t.Errorf("%d voices, want the old and the new", n)
	}
	for i := range 10_000 {
		set(i, "sha256:new")
	}
	if n := len(census.Voices(now, plan.Options{})); n != 1 {
		t.Errorf("%d voices, want one: the old is still there", n)
	}
	for i := range 10_000 {
		census.Remove(fmt.Sprintf("pod-%d", i))
	}
	if n := len(census.Voices(now, plan.Options{})); n != 0 || census.Pods() != 0 {
		t.Errorf("%d voices of %d pods are left", n, census.Pods())
	}
}

// TestVoicesStayAsTheyWere: a plan goes on while reports come in.
func TestVoicesStayAsTheyWere(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	revision := revisionOf(t, plan.Plan(in), "web")
	var census plan.Census
	r := report("a", "web", has(revision))
	census.Set("a", now.Add(-time.Hour), statements(&r))
	in.Voices = census.Voices(in.Now, in.Options)
	census.Remove("a")
	if got := statusOf(t, plan.Plan(in), "x").Summary.Acknowledged; got != "1/1" {
		t.Errorf("acknowledged %s, want 1/1", got)
	}
}
