package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// The faults that were published against Istio's count of proxies that have a
// configuration, which was removed for them in the end: one test each. Each tells
// a story over time, with the count that the operator keeps.

// story is a policy x for the client web, with its document written and its
// status stored.
type story struct {
	t      *testing.T
	in     plan.Input
	census plan.Census
}

func newStory(t *testing.T, policies ...v1alpha1.TimeoutPolicy) *story {
	s := &story{t: t, in: input(policies...)}
	s.next(0)
	return s
}

// next plans after a while, as the operator does, and stores the result.
func (s *story) next(after time.Duration) plan.Output {
	s.in.Now = s.in.Now.Add(after)
	s.in.Voices = s.census.Voices(s.in.Now, s.in.Options)
	out := plan.Plan(s.in)
	s.in = store(s.in, out)
	return out
}

// says is a pod that reports something now, or something else than before.
func (s *story) says(pod, client string, edit ...func(*v1alpha1.ReportedClient)) {
	r := report(pod, client, edit...)
	s.census.Set(pod, s.in.Now, statements(&r))
}

// revision of a client's document.
func (s *story) revision(client string) string {
	s.t.Helper()
	for _, d := range s.in.Existing {
		if d.Client == client {
			return d.Revision
		}
	}
	s.t.Fatalf("no document for %q", client)
	return ""
}

func (s *story) wantFigure(out plan.Output, name, acknowledged, capable string) {
	s.t.Helper()
	if got := statusOf(s.t, out, name).Summary; got.Acknowledged != acknowledged || got.Capable != capable {
		s.t.Errorf("%s shows %s and %s, want %s and %s", name, got.Acknowledged, got.Capable, acknowledged, capable)
	}
}

// Istio took any answer of a proxy to a push, a refusal too, for having it.
func TestARefusalIsNeverCountedAsDone(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb))
	s.says("a", "web", has("sha256:old"), says("x", v1alpha1.PolicyRejected), can("nethttp", full))
	out := s.next(time.Second)
	s.wantFigure(out, "x", "0/1", "1/1")
	wantCondition(t, out, "x", "Acknowledged", isFalse, v1alpha1.ReasonRejected, "pod a: MissingCapability")
	wantCondition(t, out, "x", "Ready", isFalse, v1alpha1.ReasonRejected, "")
	if c := statusOf(t, out, "x").Clients[0]; c.Rejected != 1 || c.Applied != 0 || c.Stale != 0 {
		t.Errorf("the counts are %+v", c)
	}
	// Neither time nor other pods that have it make a refusal into something else.
	for i := range 20 {
		s.says(fmt.Sprint("good-", i), "web", has(s.revision("web")), can("nethttp", full))
	}
	out = s.next(time.Hour)
	s.wantFigure(out, "x", "20/21", "21/21")
	wantCondition(t, out, "x", "Acknowledged", isFalse, v1alpha1.ReasonRejected, "20 of 21 clients have applied generation 1, 1 rejected it")
}

// Istio waited for proxies to which the changed object was never sent, as they
// had no need of it.
func TestAClientThatNoDocumentNamesIsNotWaitedFor(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb))
	s.says("a", "web", has(s.revision("web")), can("nethttp", full))
	for i := range 50 { // of the same namespace; there is no document for them
		s.says(fmt.Sprint("cart-", i), "cart", fallback, can("nethttp", partial))
	}
	out := s.next(time.Second)
	s.wantFigure(out, "x", "1/1", "1/1")
	wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")

	// Nor is it waited for where another policy is for it: each policy has its own
	// readers.
	other := newPolicy(t, "y", time.Minute, strings.ReplaceAll(forWeb, "web", "cart"))
	s.in.Policies = append(s.in.Policies, other)
	out = s.next(time.Second)
	s.wantFigure(out, "x", "1/1", "1/1")
	wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")
	s.wantFigure(out, "y", "0/50", "0/50")
	wantCondition(t, out, "y", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "")
}

// Istio's condition went from True to False and back for every pod that started,
// since a new proxy has nothing for its first moments.
func TestATrueDoesNotFlapAsPodsComeAndGo(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb))
	pods := 40
	for i := range pods {
		s.says(fmt.Sprint("pod-", i), "web", has(s.revision("web")), can("nethttp", full))
	}
	out := s.next(time.Second)
	wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")
	since := conditionOf(t, out, "x", "Acknowledged").LastTransitionTime
	random := newGenerator(7)
	for step := range 200 { // a rollout without end
		gone := fmt.Sprint("pod-", random.IntN(pods))
		s.census.Remove(gone)
		fresh := fmt.Sprint("pod-", pods)
		pods++
		s.says(fresh, "web", pick(random, fallback, has("sha256:old"), has(s.revision("web"))), can("nethttp", full))
		out = s.next(time.Duration(random.IntN(120)) * time.Second)
		for _, c := range []string{"Acknowledged", "Capable", "Ready"} {
			if got := conditionOf(t, out, "x", c); got.Status != isTrue {
				t.Fatalf("step %d: %s is %s: %s", step, c, got.Status, got.Message)
			}
		}
		if got := conditionOf(t, out, "x", "Acknowledged").LastTransitionTime; !got.Equal(&since) {
			t.Fatalf("step %d: the condition moved", step)
		}
		if len(out.Events) > 0 {
			t.Fatalf("step %d: events %+v", step, out.Events)
		}
	}
	// The figures follow all the same: this is not a condition that is stuck.
	s.census = plan.Census{}
	for i := range 3 {
		s.says(fmt.Sprint("last-", i), "web", has("sha256:old"), can("nethttp", full))
	}
	out = s.next(time.Hour)
	s.wantFigure(out, "x", "0/3", "3/3")
	// And another generation is judged anew.
	s.in.Policies[0].Generation = 2
	wantCondition(t, s.next(time.Second), "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "0 of 3")
}

// One proxy that hung kept Istio's figure of every object at its last value.
func TestOneBadClientHoldsUpNobodyElse(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb), newPolicy(t, "y", time.Hour, strings.ReplaceAll(forWeb, "web", "cart")))
	for i := range 30 {
		s.says(fmt.Sprint("web-", i), "web", has(s.revision("web")), can("nethttp", full))
		s.says(fmt.Sprint("cart-", i), "cart", has(s.revision("cart")), can("nethttp", full))
	}
	s.says("web-hung", "web", has("sha256:old"), can("nethttp", full))
	out := s.next(time.Second)
	// The figure is right from the first moment, also of the policy it is for.
	s.wantFigure(out, "x", "30/31", "31/31")
	s.wantFigure(out, "y", "30/30", "30/30")
	wantCondition(t, out, "y", "Ready", isTrue, v1alpha1.ReasonReady, "")
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "30 of 31")
	// After the stated time it is stale, and nobody waits for it any longer; the
	// plan says itself when that is.
	out = s.next(out.RequeueAfter)
	wantCondition(t, out, "x", "Acknowledged", isTrue, v1alpha1.ReasonAllAcknowledged, "30 of 31 clients have applied generation 1, 1 stale")
	wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")
	if c := statusOf(t, out, "x").Clients[0]; c.Stale != 1 || c.Applied != 30 {
		t.Errorf("the counts are %+v", c)
	}
}

// The same by pods that do not live long enough to be called stale: as soon as
// one of them would be, the next one is there.
func TestShortLivedPodsThatNeverFollowHoldUpNobody(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb))
	for i := range 20 {
		s.says(fmt.Sprint("web-", i), "web", has(s.revision("web")), can("nethttp", full))
	}
	waited := time.Duration(0)
	for step := range 10 {
		s.census.Remove(fmt.Sprint("job-", step-1))
		s.says(fmt.Sprint("job-", step), "web", fallback, can("nethttp", full))
		out := s.next(time.Minute)
		s.wantFigure(out, "x", "20/21", "21/21")
		if waited += time.Minute; waited < 3*time.Minute {
			wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "20 of 21 clients have applied generation 1, 1 pending")
			if left := 3*time.Minute - waited; out.RequeueAfter != left {
				t.Errorf("the plan is looked at again after %s, want %s", out.RequeueAfter, left)
			}
			continue
		}
		wantCondition(t, out, "x", "Acknowledged", isTrue, v1alpha1.ReasonAllAcknowledged, "20 of 21 clients have applied generation 1, 1 pending")
	}
	// Many of them are waited for: they may be a rollout.
	s.in.Policies[0].Generation = 2
	s.next(0)
	for i := range 20 {
		s.says(fmt.Sprint("web-", i), "web", has(s.revision("web")), can("nethttp", full))
	}
	s.next(4 * time.Minute)
	for i := range 5 {
		s.says(fmt.Sprint("new-", i), "web", fallback, can("nethttp", full))
	}
	s.in.Policies[0].Status.Conditions = nil // as if it had not been True before
	wantCondition(t, s.next(time.Second), "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "20 of 26")
}

// Istio kept figures of proxies and of objects that were gone.
func TestFiguresGoAwayWithWhatTheyCount(t *testing.T) {
	s := newStory(t, newPolicy(t, "x", time.Hour, forWeb))
	s.says("a", "web", has("sha256:old"), says("x", v1alpha1.PolicyRejected), can("nethttp", partial), deadKind("orders", "WriteTimeout"))
	s.says("b", "web", has(s.revision("web")), can("nethttp", full))
	out := s.next(time.Second)
	s.wantFigure(out, "x", "1/2", "1/2")

	s.census.Remove("a") // the pod that refused is gone, and its refusal with it
	out = s.next(time.Second)
	s.wantFigure(out, "x", "1/1", "1/1")
	wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")
	if status := statusOf(t, out, "x"); status.Clients[0].Rejected != 0 || len(status.Unsupported)+len(status.DeadRetryableKinds) != 0 {
		t.Errorf("what it lacked is still there: %+v", status)
	}

	s.census.Remove("b")
	out = s.next(time.Second)
	s.wantFigure(out, "x", "0/0", "0/0")
	if status := statusOf(t, out, "x"); len(status.Capabilities) != 0 || status.Clients[0].Reporting != 0 {
		t.Errorf("figures of nobody: %+v", status)
	}

	// A policy that is not for the client any more has no figures of it.
	s.says("b", "web", has(s.revision("web")), can("nethttp", full))
	s.in.Policies[0].Spec.Clients = []v1alpha1.ClientName{"cart"}
	s.in.Policies[0].Generation = 2
	out = s.next(time.Second)
	s.wantFigure(out, "x", "0/0", "0/0")
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonNoClients, "")

	// Switched off, nothing is left, and nothing looks as if it were true.
	s.in.Options.ReportingDisabled = true
	out = s.next(time.Second)
	s.wantFigure(out, "x", "", "")
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonReportingDisabled, "")
	wantCondition(t, out, "x", "Capable", isUnknown, v1alpha1.ReasonReportingDisabled, "")
}
