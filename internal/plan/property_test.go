package plan_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// rounds of each property; a failure names its seed.
const rounds = 120

func TestDocumentsAnswerWhatTheFoldSays(t *testing.T) {
	t.Parallel()
	answered := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		policies := g.policies(t)
		oracle := newOracle(policies)
		docs := documents(t, plan.Plan(input(policies...)))
		for range 40 {
			r := g.request()
			want, got := oracle.ask(t, r), look(t, docs, r)
			if want != nil {
				answered++
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d, %s:\n fold     %v\n document %v", seed, r, want, got)
			}
		}
	}
	if answered < rounds {
		t.Fatalf("only %d requests met a policy: the generator lost its grip", answered)
	}
}

// Cases A22, A23.
func TestAttachingAPolicyChangesNoFieldThatItDoesNotSet(t *testing.T) {
	t.Parallel()
	compared := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		policies := g.policies(t)
		added := g.policy(t, "zz-added", 0)
		before := documents(t, plan.Plan(input(policies...)))
		after := documents(t, plan.Plan(input(append(slices.Clone(policies), added)...)))
		sets := fieldsOf(t, &added)
		for range 40 {
			r := g.request()
			was, is := look(t, before, r), look(t, after, r)
			if was == nil {
				continue
			}
			if is == nil {
				t.Fatalf("seed %d, %s: nothing holds any more", seed, r)
			}
			compared++
			for path := range sets {
				for _, m := range []map[string]string{was.values, was.provenance, is.values, is.provenance} {
					delete(m, path)
				}
			}
			if !reflect.DeepEqual(was, is) {
				t.Fatalf("seed %d, %s, policy sets %v:\n before %v\n after  %v", seed, r, slices.Sorted(maps.Keys(sets)), was, is)
			}
		}
	}
	if compared < rounds {
		t.Fatalf("only %d requests compared", compared)
	}
}

// fieldsOf lists the fields that a policy sets anywhere. One that sets a field
// of a block sets the block too.
func fieldsOf(t testing.TB, p *v1alpha1.TimeoutPolicy) map[string]bool {
	t.Helper()
	sets := map[string]bool{}
	add := func(rules any) {
		for path := range flatten(t, rules) {
			sets[path] = true
			for _, block := range []string{"circuitBreaker", "retry.budget"} {
				if strings.HasPrefix(path, block) {
					sets[block] = true
				}
			}
		}
	}
	if p.Spec.Mode != "" {
		sets["mode"] = true
	}
	if p.Spec.OnUnsupported != "" {
		sets["onUnsupported"] = true
	}
	if p.Spec.Defaults != nil {
		add(p.Spec.Defaults)
	}
	for i := range p.Spec.Upstreams {
		add(&p.Spec.Upstreams[i].Rules)
		for j := range p.Spec.Upstreams[i].Routes {
			add(&p.Spec.Upstreams[i].Routes[j].Rules)
		}
	}
	return sets
}

func TestThePlanDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		in.Reports = []v1alpha1.ClientReport{
			report("web-1", "web", says("p0", v1alpha1.PolicyRejected)),
			report("web-2", "web", says("p1", v1alpha1.PolicyApplied)),
			report("cart-1", "cart", has("sha256:old")),
			report("other-1", "unnamed", can("nethttp", map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{"TimeoutTotal": v1alpha1.LevelAbsent})),
		}
		want := plan.Plan(in)
		in = store(in, want)
		want = plan.Plan(in)
		for range 3 {
			shuffled := in
			shuffled.Policies = shuffle(g, in.Policies)
			shuffled.Reports = shuffle(g, in.Reports)
			shuffled.Existing = shuffle(g, in.Existing)
			for i := range shuffled.Policies {
				shuffled.Policies[i].Spec.Upstreams = shuffle(g, shuffled.Policies[i].Spec.Upstreams)
				shuffled.Policies[i].Spec.Clients = shuffle(g, shuffled.Policies[i].Spec.Clients)
			}
			if diff := difference(want, plan.Plan(shuffled)); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	}
}

func shuffle[E any](g generator, list []E) []E {
	out := slices.Clone(list)
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// difference compares two plans. The order of upstreams in a spec shows in the
// summary and in messages, on purpose: there it is left out.
func difference(want, got plan.Output) string {
	if !reflect.DeepEqual(want.Documents, got.Documents) {
		return "documents differ"
	}
	if !reflect.DeepEqual(want.Deletions, got.Deletions) || want.RequeueAfter != got.RequeueAfter {
		return "deletions or the time to look again differ"
	}
	for i := range want.Statuses {
		a, b := want.Statuses[i].Status.DeepCopy(), got.Statuses[i].Status.DeepCopy()
		for _, s := range []*v1alpha1.TimeoutPolicyStatus{a, b} {
			s.Summary.Upstreams, s.Summary.Total, s.Summary.Attempt, s.Summary.Tries = "", "", "", ""
			for j := range s.Conditions {
				s.Conditions[j].Message = ""
			}
		}
		if !reflect.DeepEqual(a, b) {
			return "the status of " + want.Statuses[i].Name + " differs"
		}
	}
	return ""
}

func TestPlanningTheResultOfAPlanChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		in.Reports = []v1alpha1.ClientReport{report("web-1", "web", says("p0", v1alpha1.PolicyApplied)), report("cart-1", "cart")}
		first := plan.Plan(in)
		in = store(in, first)
		in.Now = now.Add(time.Minute)
		second := plan.Plan(in)
		for i, d := range second.Documents {
			if !d.Current || !reflect.DeepEqual(d.Annotations, first.Documents[i].Annotations) {
				t.Fatalf("seed %d: %s would be written again", seed, d.ConfigMap)
			}
		}
		for _, s := range second.Statuses {
			if s.Changed {
				t.Fatalf("seed %d: the status of %s would be written again", seed, s.Name)
			}
		}
		if len(second.Events) > 0 || len(second.Deletions) > 0 {
			t.Fatalf("seed %d: %v, %v", seed, second.Events, second.Deletions)
		}
	}
}

// Writing what was planned is no reason to plan again: the first plan knows already
// when time alone changes it.
func TestAPlanSaysWhenToLookAgain(t *testing.T) {
	t.Parallel()
	waits := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		if seed%2 == 0 {
			in.Reports = []v1alpha1.ClientReport{report("web-1", "web", says("p0", v1alpha1.PolicyApplied)), report("cart-1", "cart")}
		}
		in = store(in, plan.Plan(in))
		in.Now = now.Add(time.Hour)
		in.Policies = in.Policies[:len(in.Policies)/2]
		for i := range in.Policies {
			in.Policies[i].Generation++
		}
		first := plan.Plan(in)
		second := plan.Plan(store(in, first))
		if first.RequeueAfter != second.RequeueAfter {
			t.Fatalf("seed %d: look again after %s, once it is written after %s", seed, first.RequeueAfter, second.RequeueAfter)
		}
		if first.RequeueAfter > 0 {
			waits++
		}
	}
	if waits < rounds/4 {
		t.Fatalf("only %d plans had to wait", waits)
	}
}

func TestEveryEffectiveFieldComesFromAPolicyThatExists(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		policies := g.policies(t)
		exists := map[string]bool{}
		for i := range policies {
			exists[markOf(&policies[i])] = true
		}
		for client, doc := range documents(t, plan.Plan(input(policies...))) {
			for i := range doc.Upstreams {
				u := &doc.Upstreams[i]
				checkProvenance(t, seed, client, flatten(t, u.Rules), u.Provenance, exists)
				for j := range u.Routes {
					checkProvenance(t, seed, client, flatten(t, u.Routes[j].Rules), u.Routes[j].Provenance, exists)
				}
			}
		}
	}
}

func checkProvenance(t *testing.T, seed uint64, client string, values, provenance map[string]string, exists map[string]bool) {
	t.Helper()
	for path := range values {
		if !exists[provenance[path]] {
			t.Fatalf("seed %d, client %q: %s comes from %q", seed, client, path, provenance[path])
		}
	}
	for path, mark := range provenance {
		if !exists[mark] {
			t.Fatalf("seed %d, client %q: %s comes from %q, which does not exist", seed, client, path, mark)
		}
	}
}
