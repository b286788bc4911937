package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

// simple is a policy with one upstream for every client.
const simple = `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, connect: 100ms}}]}`

// forWeb is the same for the client web.
const forWeb = `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, connect: 100ms}}]}`

// Every reason of Accepted, ResolvedRefs and Programmed, with what the message
// has to name.
//
// Case A20.
func TestConditionsOfTheSpec(t *testing.T) {
	for _, test := range []struct {
		name          string
		policies      []spec
		edit          func(*plan.Input)
		settle        func(plan.Output) plan.Output
		conditionType string
		status        metav1.ConditionStatus
		reason        string
		message       string
	}{
		{
			name:          "a valid policy is accepted",
			policies:      []spec{{"x", 0, simple}},
			conditionType: v1alpha1.ConditionAccepted, status: isTrue, reason: v1alpha1.ReasonAccepted,
		},
		{
			name: "the younger of two policies for a host is in conflict",
			// istio/istio#13267.
			policies:      []spec{{"x", time.Hour, simple}, {"older", 2 * time.Hour, simple}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonConflicted,
			message: "upstream orders: host orders.example.com belongs to the older policy shop/older (upstream orders)",
		},
		{
			name:          "a conflict at the level of clients names the client",
			policies:      []spec{{"x", time.Hour, `{clients: [web, cart], upstreams: [{name: orders, hosts: [orders.example.com]}]}`}, {"older", 2 * time.Hour, forWeb}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonConflicted,
			message: "for client web",
		},
		{
			name:          "a conflict is one of expanded services too",
			policies:      []spec{{"x", time.Hour, `{upstreams: [{name: o, hosts: [Orders.shop.svc.]}]}`}, {"older", 2 * time.Hour, `{upstreams: [{name: orders, service: {name: orders}}]}`}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonConflicted,
			message: "shop/older",
		},
		{
			name:          "with the same age the name decides",
			policies:      []spec{{"x", time.Hour, simple}, {"a", time.Hour, simple}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonConflicted,
			message: "shop/a",
		},
		{
			name:          "policies of two levels do not conflict",
			policies:      []spec{{"x", time.Hour, forWeb}, {"older", 2 * time.Hour, simple}},
			conditionType: v1alpha1.ConditionAccepted, status: isTrue, reason: v1alpha1.ReasonAccepted,
		},
		{
			// enix/kube-image-keeper#451.
			name:          "a duration that was stored under a lax schema",
			policies:      []spec{{"x", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1d}}]}`}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonInvalid,
			message: `spec.upstreams[0].timeouts.total: "1d" is not a duration`,
		},
		{
			name:          "defaults that contradict an upstream",
			policies:      []spec{{"x", 0, `{defaults: {timeouts: {attempt: 2s}}, upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`}},
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonInvalid,
			message: `spec.defaults.timeouts.attempt: 2s is longer than spec.upstreams[0].timeouts.total, which is 1s`,
		},
		{
			name:          "a spec that cannot be read at all",
			policies:      []spec{{"x", 0, simple}},
			edit:          func(in *plan.Input) { in.Faults = map[string]string{"x": "cannot be read: mode is a number"} },
			conditionType: v1alpha1.ConditionAccepted, status: isFalse, reason: v1alpha1.ReasonInvalid,
			message: "spec: cannot be read: mode is a number",
		},
		{
			name:          "services that exist with the port",
			policies:      []spec{{"x", 0, `{upstreams: [{name: orders, service: {name: orders, port: 8080}}]}`}},
			edit:          withService("shop", "orders", 8080),
			conditionType: v1alpha1.ConditionResolvedRefs, status: isTrue, reason: v1alpha1.ReasonResolvedRefs,
		},
		{
			name:          "a service without ports has every port",
			policies:      []spec{{"x", 0, `{upstreams: [{name: orders, service: {name: orders, port: 8080}}]}`}},
			edit:          withService("shop", "orders"),
			conditionType: v1alpha1.ConditionResolvedRefs, status: isTrue, reason: v1alpha1.ReasonResolvedRefs,
		},
		{
			name:          "a service that is not there",
			policies:      []spec{{"x", 0, `{upstreams: [{name: orders, service: {name: orders, namespace: sales}}]}`}},
			edit:          withService("shop", "orders"),
			conditionType: v1alpha1.ConditionResolvedRefs, status: isFalse, reason: v1alpha1.ReasonServiceNotFound,
			message: "upstream orders: there is no Service sales/orders",
		},
		{
			name:          "a port that is not there",
			policies:      []spec{{"x", 0, `{upstreams: [{name: orders, service: {name: orders, port: 9}}]}`}},
			edit:          withService("shop", "orders", 8080),
			conditionType: v1alpha1.ConditionResolvedRefs, status: isFalse, reason: v1alpha1.ReasonPortNotFound,
			message: "upstream orders: the Service shop/orders has no port 9",
		},
		{
			name:          "a policy in its documents",
			policies:      []spec{{"x", 0, simple}, {"web", 0, `{clients: [web], upstreams: [{name: a, hosts: [a.example.com]}]}`}},
			conditionType: v1alpha1.ConditionProgrammed, status: isTrue, reason: v1alpha1.ReasonProgrammed,
			message: "ConfigMap timeouts; ConfigMap timeouts-web",
		},
		{
			name:          "a policy that was not rendered since it is invalid",
			policies:      []spec{{"x", 0, `{upstreams: []}`}},
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonRenderFailed,
			message: "invalid",
		},
		{
			name:     "a ConfigMap that is somebody else's",
			policies: []spec{{"x", 0, forWeb}},
			edit: func(in *plan.Input) {
				in.Existing = []plan.ExistingDocument{{ConfigMap: "timeouts-web", Foreign: true}}
			},
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonRenderFailed,
			message: "ConfigMap shop/timeouts-web: a ConfigMap of that name is there already",
		},
		{
			name:     "a ConfigMap that could not be written",
			policies: []spec{{"x", 0, forWeb}},
			settle: func(out plan.Output) plan.Output {
				return out.WithFailures(map[string]string{"timeouts-web": "forbidden"})
			},
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonRenderFailed,
			message: "ConfigMap shop/timeouts-web: forbidden",
		},
		{
			name:     "a ConfigMap that is not written yet",
			policies: []spec{{"x", 0, forWeb}},
			settle: func(out plan.Output) plan.Output {
				return out.WithPending(map[string]string{"timeouts-web": "the definition is being installed anew"})
			},
			conditionType: v1alpha1.ConditionProgrammed, status: isUnknown, reason: v1alpha1.ReasonReconciling,
			message: "ConfigMap shop/timeouts-web: the definition is being installed anew",
		},
		{
			name:          "the youngest policy that does not fit",
			policies:      []spec{{"x", 0, simple}, {"older", time.Hour, `{upstreams: [{name: a, hosts: [a.example.com]}]}`}},
			edit:          func(in *plan.Input) { in.Options.MaxDocumentBytes = 600 },
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonDocumentTooLarge,
			message: "ConfigMap shop/timeouts: the document would have",
		},
		{
			name:          "a policy that lost every upstream",
			policies:      []spec{{"x", time.Hour, simple}, {"older", 2 * time.Hour, simple}},
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonOverridden,
			message: "shop/older",
		},
		{
			name:          "a disabled policy",
			policies:      []spec{{"x", 0, `{mode: Disabled, upstreams: [{name: a, hosts: [a.example.com]}]}`}},
			conditionType: v1alpha1.ConditionProgrammed, status: isFalse, reason: v1alpha1.ReasonOverridden,
			message: "Disabled",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input(policiesOf(t, test.policies)...)
			if test.edit != nil {
				test.edit(&in)
			}
			out := plan.Plan(in)
			if test.settle != nil {
				out = test.settle(out)
			}
			wantCondition(t, out, "x", test.conditionType, test.status, test.reason, test.message)
			for _, c := range statusOf(t, out, "x").Conditions {
				if c.ObservedGeneration != 1 || c.LastTransitionTime.Time != now {
					t.Errorf("%s: observedGeneration %d, lastTransitionTime %s", c.Type, c.ObservedGeneration, c.LastTransitionTime)
				}
			}
		})
	}
}

func withService(namespace, name string, ports ...int32) func(*plan.Input) {
	return func(in *plan.Input) {
		in.Services = map[types.NamespacedName]plan.Service{{Namespace: namespace, Name: name}: {Ports: ports}}
	}
}

func TestOtherUpstreamsOfALoserStillWork(t *testing.T) {
	out := plan.Plan(input(
		newPolicy(t, "older", 2*time.Hour, simple),
		newPolicy(t, "younger", time.Hour, `{upstreams: [
			{name: mine, hosts: [mine.example.com], timeouts: {total: 3s}},
			{name: orders, hosts: [orders.example.com, alias.example.com], timeouts: {total: 9s}}]}`),
	))
	wantCondition(t, out, "younger", v1alpha1.ConditionAccepted, isFalse, v1alpha1.ReasonConflicted, "shop/older")
	wantCondition(t, out, "younger", v1alpha1.ConditionProgrammed, isTrue, v1alpha1.ReasonProgrammed, "timeouts")
	doc := documentOf(t, out, "")
	if len(doc.Upstreams) != 2 || doc.Upstreams[0].Name != "mine" || doc.Upstreams[1].Timeouts.Total.String() != "1s" {
		t.Errorf("the document holds %+v", doc.Upstreams)
	}
	if u, _ := doc.Lookup("alias.example.com", 80, call("GET", "/")); u != nil {
		t.Error("an upstream that lost one host must be left out as a whole")
	}
}

func TestALoserWithALoserOfItsOwnKeepsNobodyOut(t *testing.T) {
	out := plan.Plan(input(
		newPolicy(t, "first", 3*time.Hour, `{upstreams: [{name: a, hosts: [a.example.com]}]}`),
		newPolicy(t, "second", 2*time.Hour, `{upstreams: [{name: ab, hosts: [a.example.com, b.example.com]}]}`),
		newPolicy(t, "third", time.Hour, `{upstreams: [{name: b, hosts: [b.example.com]}]}`),
	))
	wantCondition(t, out, "second", v1alpha1.ConditionAccepted, isFalse, v1alpha1.ReasonConflicted, "shop/first")
	wantCondition(t, out, "third", v1alpha1.ConditionAccepted, isTrue, v1alpha1.ReasonAccepted, "")
}

// A02, A03, A04 and A08 at the level of a plan: objects that were stored
// under a lax schema are judged, and the others go on.
func TestStoredObjectsThatAreInvalidStopNobody(t *testing.T) {
	upstream := func(rules string) string {
		return "{upstreams: [{name: bad, hosts: [bad.example.com], " + rules + "}]}"
	}
	for _, test := range []struct{ spec, fault string }{
		{upstream("timeouts: {total: 1d}"), "spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {total: 1mm}"), "spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {total: 9999999h}"), "spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {total: 2562047h48m}"), "spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {total: 99999h99999h}"), "longer than the largest duration"},
		{upstream(`timeouts: {total: ""}`), "spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {scope: Trailers}"), "spec.upstreams[0].timeouts.scope"},
		{upstream("timeouts: {attempt: 2s, total: 1s}"), "spec.upstreams[0].timeouts.attempt: 2s is longer than spec.upstreams[0].timeouts.total"},
		{upstream("timeouts: {connect: 2s, attempt: 1s}"), "spec.upstreams[0].timeouts.connect"},
		{upstream("timeouts: {responseHeader: 2s, attempt: 1s}"), "spec.upstreams[0].timeouts.responseHeader"},
		{upstream("retry: {maxAttempts: 0}"), "spec.upstreams[0].retry.maxAttempts: is 0, it must be from 1 to 10"},
		{upstream("retry: {maxAttempts: -1}"), "spec.upstreams[0].retry.maxAttempts"},
		{upstream("retry: {retryableStatusCodes: [200]}"), "spec.upstreams[0].retry.retryableStatusCodes[0]"},
		{upstream("retry: {methods: [\"GET \"]}"), "spec.upstreams[0].retry.methods[0]"},
		{upstream("retry: {backoff: {initial: 5s, max: 1s}}"), "spec.upstreams[0].retry.backoff.initial"},
		{upstream("retry: {backoff: {factor: 99}}"), "spec.upstreams[0].retry.backoff.factor"},
		{upstream("retry: {budget: {percent: 101}}"), "spec.upstreams[0].retry.budget.percent"},
		{upstream("retry: {retryAfter: {max: x}}"), "spec.upstreams[0].retry.retryAfter.max"},
		{upstream("deadline: {header: 'a b'}"), "spec.upstreams[0].deadline.header"},
		{upstream("deadline: {reserve: -1s}"), "spec.upstreams[0].deadline.reserve"},
		{upstream("circuitBreaker: {recovery: 0s}"), "spec.upstreams[0].circuitBreaker.recovery"},
		{upstream("routes: [{name: r, match: {path: x}}]"), "spec.upstreams[0].routes[0].match.path"},
		{upstream("routes: [{name: r, match: {}}, {name: r, match: {path: /a}}]"), "spec.upstreams[0].routes[1].name"},
		{upstream("routes: [{name: r, match: {path: /a}}, {name: s, match: {path: /a/}}]"), "spec.upstreams[0].routes[1].match: selects the same calls"},
		{upstream("timeouts: {total: 1s}, routes: [{name: slow, match: {path: /a}, timeouts: {attempt: 2s}}]"), "spec.upstreams[0].routes[slow].timeouts.attempt: 2s is longer than spec.upstreams[0].timeouts.total"},
		{`{defaults: {timeouts: {total: soon}}, upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.defaults.timeouts.total"},
		{`{defaults: {retry: {maxAttempts: 99}}, upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.defaults.retry.maxAttempts"},
		{`{mode: Off, upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.mode"},
		{`{onUnsupported: Panic, upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.onUnsupported"},
		{`{clients: [], upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.clients"},
		{`{clients: [Bad_Name], upstreams: [{name: bad, hosts: [bad.example.com]}]}`, "spec.clients[0]"},
		{`{upstreams: []}`, "spec.upstreams"},
		{`{upstreams: [{name: bad}]}`, "spec.upstreams[0]: needs a target"},
		{`{upstreams: [{name: Bad.Name, hosts: [bad.example.com]}]}`, "spec.upstreams[0].name"},
		{`{upstreams: [{name: bad, hosts: ["http://bad"]}]}`, "spec.upstreams[0].hosts[0]"},
		{`{upstreams: [{name: bad, service: {name: "a.b"}}]}`, "spec.upstreams[0].service.name"},
		{`{upstreams: [{name: bad, service: {name: a, port: 70000}}]}`, "spec.upstreams[0].service.port"},
		{`{upstreams: [{name: bad, hosts: [a.example.com]}, {name: bad, hosts: [b.example.com]}]}`, "spec.upstreams[1].name"},
		{`{upstreams: [{name: bad, service: {name: orders}}, {name: twice, hosts: [ORDERS.shop]}]}`, `spec.upstreams[1]: host "orders.shop" belongs to spec.upstreams[0] already`},
	} {
		t.Run(test.fault, func(t *testing.T) {
			out := plan.Plan(input(newPolicy(t, "bad", 0, test.spec), newPolicy(t, "good", 0, simple)))
			wantCondition(t, out, "bad", v1alpha1.ConditionAccepted, isFalse, v1alpha1.ReasonInvalid, test.fault)
			wantCondition(t, out, "bad", v1alpha1.ConditionReady, isFalse, v1alpha1.ReasonInvalid, test.fault)
			wantCondition(t, out, "good", v1alpha1.ConditionProgrammed, isTrue, v1alpha1.ReasonProgrammed, "")
			if doc := documentOf(t, out, ""); len(doc.Policies) != 1 {
				t.Errorf("the document was made from %+v", doc.Policies)
			}
		})
	}
}

// kumahq/kuma#3629. "0s" is no limit in every comparison.
func TestNoLimitIsLongerThanAnyLimit(t *testing.T) {
	for _, rules := range []string{
		"timeouts: {total: 0s, attempt: 5s}",
		"timeouts: {total: 1s, attempt: 0s}",
		"timeouts: {attempt: 0s, responseHeader: 300ms, connect: 9s}",
		"retry: {backoff: {initial: 5s, max: 0s}}",
	} {
		p := newPolicy(t, "x", 0, "{upstreams: [{name: a, hosts: [a.example.com], "+rules+"}]}")
		if faults := plan.Validate(&p, plan.Options{}); len(faults) > 0 {
			t.Errorf("%s: %v", rules, faults)
		}
	}
}

func TestAThousandPoliciesWithOneMalformed(t *testing.T) {
	policies := manyPolicies(t, 1000, 0, 0)
	total := v1alpha1.Duration("1d")
	policies[500].Spec.Upstreams[0].Timeouts.Total = &total
	out := plan.Plan(input(policies...))
	programmed := 0
	for _, s := range out.Statuses {
		for _, c := range s.Status.Conditions {
			if c.Type == v1alpha1.ConditionProgrammed && c.Status == isTrue {
				programmed++
			}
		}
	}
	if programmed != 999 {
		t.Errorf("%d policies are programmed, want 999", programmed)
	}
	wantCondition(t, out, "p0500", v1alpha1.ConditionAccepted, isFalse, v1alpha1.ReasonInvalid, "spec.upstreams[0].timeouts.total")
}

func TestTheOldPoliciesThatFitGoOnBeingUpdated(t *testing.T) {
	policies := manyPolicies(t, 40, 0, 0) // p0039 is the oldest
	in := input(policies...)
	in.Options.MaxDocumentBytes = 8 << 10
	out := plan.Plan(in)
	doc := documentOf(t, out, "")
	fit := len(doc.Policies)
	if fit == 0 || fit == 40 || len(out.Documents[0].Data) > in.Options.MaxDocumentBytes {
		t.Fatalf("%d of 40 policies fit into %d bytes", fit, len(out.Documents[0].Data))
	}
	for i := range 40 {
		status, reason := isTrue, v1alpha1.ReasonProgrammed
		if 39-i >= fit {
			status, reason = isFalse, v1alpha1.ReasonDocumentTooLarge
		}
		wantCondition(t, out, fmt.Sprintf("p%04d", i), v1alpha1.ConditionProgrammed, status, reason, "")
	}
	total := v1alpha1.Duration("7s")
	policies[39].Spec.Upstreams[0].Timeouts.Total = &total
	rules, _ := rulesFor(t, plan.Plan(in), "", "u0039.example.com", 80, "/")
	if rules.Timeouts.Total.String() != "7s" {
		t.Errorf("the oldest policy was not updated: %s", rules.Timeouts.Total)
	}
}

func TestTooManyRoutesOfManyPoliciesAreTooLargeAPart(t *testing.T) {
	var policies []v1alpha1.TimeoutPolicy
	for i := range 20 {
		// Wildcards of different depth meet at one host without a conflict.
		host := "*." + strings.Repeat("x.", i) + "example.com"
		var routes []string
		for j := range 16 {
			routes = append(routes, fmt.Sprintf("{name: r%d, match: {path: /p%d/r%d}, timeouts: {total: 1s}}", j, i, j))
		}
		policies = append(policies, newPolicy(t, fmt.Sprintf("p%02d", i), time.Duration(40-i)*time.Hour,
			fmt.Sprintf("{upstreams: [{name: u, hosts: [%q], routes: [%s]}]}", host, strings.Join(routes, ", "))))
	}
	in := input(policies...)
	in.Options.MaxDocumentBytes = 1 << 20
	out := plan.Plan(in)
	if doc := documentOf(t, out, ""); len(doc.Policies) != 16 {
		t.Errorf("%d policies fit, want 16 with 16 routes each", len(doc.Policies))
	}
	wantCondition(t, out, "p15", v1alpha1.ConditionProgrammed, isTrue, v1alpha1.ReasonProgrammed, "")
	wantCondition(t, out, "p16", v1alpha1.ConditionProgrammed, isFalse, v1alpha1.ReasonDocumentTooLarge, "more than 256 routes")
}

func TestAPolicyThatFitsNowhereLeavesTheDocumentAlone(t *testing.T) {
	in := input(newPolicy(t, "x", 0, simple))
	in = store(in, plan.Plan(in))
	in.Options.MaxDocumentBytes = 10
	out := plan.Plan(in)
	if len(out.Documents) != 0 || len(out.Deletions) != 0 {
		t.Errorf("got %+v, %v", out.Documents, out.Deletions)
	}
	wantCondition(t, out, "x", v1alpha1.ConditionProgrammed, isFalse, v1alpha1.ReasonDocumentTooLarge, "")
	wantCondition(t, out, "x", v1alpha1.ConditionAcknowledged, isUnknown, v1alpha1.ReasonNoClients, "")
}

func TestAPolicyThatIsDamagedLaterLeavesTheDocumentAlone(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in = store(in, plan.Plan(in))
	total := v1alpha1.Duration("1mm")
	in.Policies[0].Spec.Upstreams[0].Timeouts.Total = &total
	if out := plan.Plan(in); len(out.Documents) != 0 || len(out.Deletions) != 0 {
		t.Errorf("a bad policy displaced a good document: %+v, %v", out.Documents, out.Deletions)
	}
}

func TestOverriddenFieldsAreListedWithWhoSetsThem(t *testing.T) {
	out := plan.Plan(input(
		newPolicy(t, "base", time.Hour, `{mode: Shadow, upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 9s, attempt: 1s}, retry: {budget: {percent: 5}},
			routes: [{name: slow, match: {path: /slow}, timeouts: {total: 20s, bodyIdle: 5s}}]}]}`),
		newPolicy(t, "web", 0, `{clients: [web], mode: Enforce, upstreams: [{name: o, hosts: [orders.example.com], timeouts: {total: 2s}, retry: {budget: {burst: 1}}}]}`),
	))
	var got []string
	for _, o := range statusOf(t, out, "base").Overridden {
		got = append(got, o.Upstream+" "+o.Path+" "+o.By)
	}
	want := "orders mode shop/web, orders routes[slow].timeouts.total shop/web, orders timeouts.total shop/web"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if o := statusOf(t, out, "web").Overridden; len(o) != 0 {
		t.Errorf("nothing of the upper policy is overridden: %v", o)
	}
}

func TestSummaryTellsWhatIsInForce(t *testing.T) {
	out := plan.Plan(input(
		newPolicy(t, "base", time.Hour, `{clients: [web], upstreams: [
			{name: orders, hosts: [orders.example.com], timeouts: {total: 2s, attempt: 400ms}, retry: {maxAttempts: 3}}, {name: b, hosts: [b.example.com]}]}`),
		newPolicy(t, "plain", time.Hour, `{upstreams: [{name: c, hosts: [c.example.com], timeouts: {total: 0s}}]}`),
	))
	digits := strings.TrimPrefix(revisionOf(t, out, "web"), "sha256:")[:12]
	want := v1alpha1.StatusSummary{Upstreams: "orders +1", Acknowledged: "0/0", Capable: "0/0", Total: "2s", Attempt: "400ms", Tries: "3", Revision: digits}
	if got := statusOf(t, out, "base").Summary; got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := statusOf(t, out, "plain").Summary; got.Total != "" || got.Tries != "1" {
		t.Errorf("no limit is shown as a limit: %+v", got)
	}
}
