package plan_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// sameButData fails the test unless two plans are the same, apart from bytes that
// the second one did not make because its memo knows them, and that it can make.
func sameButData(t *testing.T, want, got plan.Output) {
	t.Helper()
	if len(want.Documents) != len(got.Documents) {
		t.Fatalf("%d documents, want %d", len(got.Documents), len(want.Documents))
	}
	for i := range want.Documents {
		w, g := want.Documents[i], got.Documents[i]
		data, err := got.Render(&g)
		if err != nil || !bytes.Equal(data, w.Data) {
			t.Fatalf("%s is rendered as\n%s\n%v, want\n%s", w.ConfigMap, data, err, w.Data)
		}
		w.Data, g.Data = nil, nil
		if !reflect.DeepEqual(w, g) {
			t.Fatalf("got %+v\nwant %+v", g, w)
		}
	}
	if !reflect.DeepEqual(want.Statuses, got.Statuses) || !reflect.DeepEqual(want.Events, got.Events) ||
		!slices.Equal(want.Deletions, got.Deletions) || want.RequeueAfter != got.RequeueAfter {
		t.Fatal("statuses, events, deletions or the time to look again differ")
	}
}

func TestAMemoChangesNoPlan(t *testing.T) {
	t.Parallel()
	recalled := 0
	for seed := range uint64(rounds / 2) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		if g.chance(30) {
			in.Options.MaxDocumentBytes = 2000
		}
		memo := &plan.Memo{}
		for step := range 4 {
			want := plan.Plan(in)
			remembering := in
			remembering.Memo = memo
			got := plan.Plan(remembering)
			for _, d := range got.Documents {
				if d.Data == nil {
					recalled++
				}
			}
			sameButData(t, want, got)
			in = store(in, want)
			switch step {
			case 1:
				edited := &in.Policies[g.IntN(len(in.Policies))]
				edited.Spec.Upstreams[0].Rules = g.rules()
				edited.Generation++
			case 2:
				in.Policies = append(slices.Clone(in.Policies), g.policy(t, "zz-added", 0))
			}
		}
	}
	if recalled < rounds/2 {
		t.Fatalf("only %d documents were recalled", recalled)
	}
}

// One memo through the life of a namespace: policies come, go, are edited, turned
// off and made anew under the same name, where their generation starts at 1 again,
// the bound of documents changes, and ConfigMaps go or turn out to be somebody
// else's.
func TestAMemoChangesNoPlanInAnyHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds / 4) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		memo := &plan.Memo{}
		for range 12 {
			in = g.nextChapter(t, in)
			remembering := in
			remembering.Memo = memo
			want, got := plan.Plan(in), plan.Plan(remembering)
			sameButData(t, want, got)
			if g.chance(80) {
				in = store(in, want)
			}
		}
	}
}

// nextChapter changes one thing of a namespace.
func (g generator) nextChapter(t *testing.T, in plan.Input) plan.Input {
	in.Now = in.Now.Add(time.Duration(g.IntN(300)) * time.Second)
	in.Policies = slices.Clone(in.Policies)
	name := pick(g, "n0", "n1", "n2")
	at := slices.IndexFunc(in.Policies, func(p v1alpha1.TimeoutPolicy) bool { return p.Name == name })
	switch what := g.IntN(10); {
	case what == 0:
		in.Options.MaxDocumentBytes = pick(g, 0, 900, 1500, 2500)
	case what == 1 && len(in.Existing) > 0:
		in.Existing = slices.Clone(in.Existing)
		in.Existing[g.IntN(len(in.Existing))].Foreign = true
	case what == 2:
		in.Existing = nil
	case at < 0:
		fresh := g.policy(t, name, 0)
		fresh.UID = types.UID(fmt.Sprint(name, "-", g.IntN(1000)))
		fresh.CreationTimestamp.Time = in.Now.Add(-time.Duration(g.IntN(100)) * time.Hour)
		in.Policies = append(in.Policies, fresh)
	case what < 5:
		in.Policies = slices.Delete(in.Policies, at, at+1)
	case what == 5: // made anew just as it was, from a file
		in.Policies[at].UID += "+"
	default:
		edited := in.Policies[at].DeepCopy()
		edited.Generation++
		if edited.Spec.Mode = pick(g, "", v1alpha1.ModeDisabled); edited.Spec.Mode == "" {
			edited.Spec = g.policy(t, name, 0).Spec
		}
		in.Policies[at] = *edited
	}
	return in
}

// A namespace whose document is too large is the dearest to plan: half a dozen
// renderings to find what fits. Nothing of it is done twice.
func TestAMemoKnowsWhatDoesNotFit(t *testing.T) {
	in := input(manyPolicies(t, 40, 0, 0)...)
	in.Options.MaxDocumentBytes, in.Memo = 4000, &plan.Memo{}
	first := plan.Plan(in)
	second := plan.Plan(in)
	if first.Documents[0].Data == nil || second.Documents[0].Data != nil {
		t.Fatal("the document was not recalled")
	}
	sameButData(t, first, second)
	wantCondition(t, second, "p0000", v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonDocumentTooLarge, "more than 4000")
	in.Options.MaxDocumentBytes = 4 << 20
	in.Now = in.Now.Add(time.Second)
	if all := plan.Plan(in); all.Documents[0].Data == nil || all.Documents[0].Bytes <= 4000 {
		t.Error("another limit was answered from the memo")
	}
}

func TestAnOutputHoldsNoMoreThanItHasRoomFor(t *testing.T) {
	in := input(manyPolicies(t, 40, 1, 40)...)
	want := plan.Plan(in)
	in.Memo = &plan.Memo{MaxHeld: 5 * want.Documents[0].Bytes}
	got := plan.Plan(in)
	held := 0
	for _, d := range got.Documents {
		held += len(d.Data)
	}
	if held == 0 || held > in.Memo.MaxHeld {
		t.Errorf("%d bytes are held, at most %d may be", held, in.Memo.MaxHeld)
	}
	sameButData(t, want, got)
}

func BenchmarkTwoHundredClientsUnderTenPoliciesAgain(b *testing.B) {
	in := twoHundredClients(b)
	in.Memo = &plan.Memo{}
	benchmarkPlan(b, in)
}
