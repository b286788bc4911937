package plan_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

type levels = map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel

var (
	full    = levels{"TimeoutTotal": "Native", "DeadlineHard": "Native", "DeadlineCoversBody": "Emulated", "TimeoutConnect": "Degraded"}
	partial = levels{"TimeoutTotal": "Native", "DeadlineHard": "Native", "DeadlineCoversBody": "Emulated", "TimeoutConnect": "Absent"}
)

// lacks is a gap that a client states itself.
func lacks(upstream, field, capability string) func(*v1alpha1.ReportedClient) {
	return func(c *v1alpha1.ReportedClient) {
		c.Upstreams = append(c.Upstreams, v1alpha1.ReportedUpstream{Name: upstream, Adapter: "fasthttp",
			Unsupported: []v1alpha1.ReportedGap{{Field: field, Capability: v1alpha1.ReportedWord(capability)}}})
	}
}

func deadKind(upstream string, kinds ...v1alpha1.ReportedWord) func(*v1alpha1.ReportedClient) {
	return func(c *v1alpha1.ReportedClient) {
		c.Upstreams = append(c.Upstreams, v1alpha1.ReportedUpstream{Name: upstream, Adapter: "nethttp", DeadKinds: kinds})
	}
}

func fallback(c *v1alpha1.ReportedClient) { c.State = v1alpha1.StateFallback }

func static(c *v1alpha1.ReportedClient) { c.Delivery = v1alpha1.DeliveryStatic }

// born sets the age of a report.
func born(r v1alpha1.ClientReport, age time.Duration) v1alpha1.ClientReport {
	r.CreationTimestamp = metav1.NewTime(now.Add(-age))
	return r
}

// Every reason of Acknowledged, Capable and Ready. The policy x is for the
// client web; its document was written age ago.
//
// Cases A25, R16, R20.
func TestConditionsOfTheClients(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	current := has(revisionOf(t, plan.Plan(in), "web"))
	old := has("sha256:old")
	for _, test := range []struct {
		name          string
		age           time.Duration
		reports       []v1alpha1.ClientReport
		options       plan.Options
		conditionType string
		status        metav1.ConditionStatus
		reason        string
		message       string
	}{
		{
			// dapr/dapr#5602.
			name: "nobody reports the client", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("cart-1", "cart", old)},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonNoClients, message: "no live pod reports",
		},
		{
			name: "all have the revision", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current), report("b", "web", current)},
			conditionType: "Acknowledged", status: isTrue, reason: v1alpha1.ReasonAllAcknowledged, message: "2 of 2 clients have applied generation 1",
		},
		{
			name: "one says so of the policy in an older document", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, says("x", v1alpha1.PolicyApplied))},
			conditionType: "Acknowledged", status: isTrue, reason: v1alpha1.ReasonAllAcknowledged, message: "1 of 1",
		},
		{
			// kubernetes/kubernetes#30189.
			name: "a mounted ConfigMap takes its time", age: 179 * time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current), report("b", "web", old)},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating, message: "1 of 2 clients have applied generation 1, 1 pending",
		},
		{
			name: "a stated time of less than the kubelet needs is not taken", age: 179 * time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old)},
			options:       plan.Options{StaleAfter: time.Second},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating,
		},
		{
			name: "a pod that came late has its own time", age: time.Hour,
			reports:       []v1alpha1.ClientReport{born(report("a", "web", fallback), time.Minute)},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating,
		},
		{
			name: "nobody followed in time", age: 180 * time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old), report("b", "web", fallback)},
			conditionType: "Acknowledged", status: isFalse, reason: v1alpha1.ReasonTimeout, message: "0 of 2 clients have applied generation 1, 2 stale; whoever has not followed 3m0s after",
		},
		{
			name: "one silent pod blocks nobody", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web", current), report("b", "web", old)},
			conditionType: "Acknowledged", status: isTrue, reason: v1alpha1.ReasonAllAcknowledged, message: "1 of 2 clients have applied generation 1, 1 stale",
		},
		{
			name: "two silent pods of three do", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web", current), report("b", "web", old), report("c", "web", old)},
			conditionType: "Acknowledged", status: isFalse, reason: v1alpha1.ReasonTimeout, message: "1 of 3",
		},
		{
			name: "a refusal is no acknowledgement", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current), report("b", "web", old, says("x", v1alpha1.PolicyRejected))},
			conditionType: "Acknowledged", status: isFalse, reason: v1alpha1.ReasonRejected, message: "1 rejected it; client web in pod b: MissingCapability: adapter nethttp cannot honour it",
		},
		{
			name: "a refusal of another generation says nothing of this one", age: time.Second,
			reports: []v1alpha1.ClientReport{report("a", "web", old, says("x", v1alpha1.PolicyRejected), func(c *v1alpha1.ReportedClient) {
				c.Policies[0].Generation = 7
			})},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating,
		},
		{
			// k8ssandra/cass-operator#657.
			name: "an acknowledgement of a policy with the same name and another UID says nothing", age: time.Second,
			reports: []v1alpha1.ClientReport{report("a", "web", old, says("x", v1alpha1.PolicyApplied), func(c *v1alpha1.ReportedClient) {
				c.Policies[0].UID = "uid-before"
			})},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating,
		},
		{
			name: "a higher generation is not this one", age: time.Hour,
			reports: []v1alpha1.ClientReport{report("a", "web", old, says("x", v1alpha1.PolicyApplied), func(c *v1alpha1.ReportedClient) {
				c.Policies[0].Generation = 9
			})},
			conditionType: "Acknowledged", status: isFalse, reason: v1alpha1.ReasonTimeout,
		},
		{
			name: "an old library that says neither revision nor policies is unknown", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web"), report("b", "web", current)},
			conditionType: "Acknowledged", status: isTrue, reason: v1alpha1.ReasonAllAcknowledged, message: "1 too old to tell",
		},
		{
			name: "old libraries alone say nothing", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web")},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonNoClients, message: "1 too old to tell",
		},
		{
			// kubernetes/kubernetes#50345.
			name: "a client that cannot be updated keeps nobody waiting", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, static), report("b", "web", current)},
			conditionType: "Acknowledged", status: isTrue, reason: v1alpha1.ReasonAllAcknowledged, message: "1 stale, 1 cannot be updated (delivery Static)",
		},
		{
			name: "no timeout is said early, even of clients that cannot be updated", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, static)},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonPropagating, message: "1 cannot be updated (delivery Static)",
		},
		{
			name: "clients that cannot be updated do not follow in the end", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, static)},
			conditionType: "Acknowledged", status: isFalse, reason: v1alpha1.ReasonTimeout, message: "1 cannot be updated (delivery Static)",
		},
		{
			// cilium/cilium#20231.
			name: "reporting was turned off", age: time.Hour,
			reports:       []v1alpha1.ClientReport{report("a", "web", current)},
			options:       plan.Options{ReportingDisabled: true},
			conditionType: "Acknowledged", status: isUnknown, reason: v1alpha1.ReasonReportingDisabled,
		},
		{
			name: "every client can", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full))},
			conditionType: "Capable", status: isTrue, reason: v1alpha1.ReasonAllCapable, message: "1 of 1 clients can enforce all of it",
		},
		{
			name: "one client cannot", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full)), report("b", "web", current, can("fasthttp", partial))},
			conditionType: "Capable", status: isFalse, reason: v1alpha1.ReasonMissingCapability,
			message: "1 of 2 clients cannot enforce all of it: timeouts.connect of orders (TimeoutConnect, 1 clients, such as b/fasthttp)",
		},
		{
			name: "an old library that does not list what it can do is unknown", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full)), report("b", "web", current)},
			conditionType: "Capable", status: isTrue, reason: v1alpha1.ReasonAllCapable, message: "1 of 2 clients can enforce all of it, 1 do not say",
		},
		{
			name: "a client's own word counts without a list of levels", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, lacks("orders", "timeouts.connect", "TimeoutConnect"))},
			conditionType: "Capable", status: isFalse, reason: v1alpha1.ReasonMissingCapability, message: "a/fasthttp",
		},
		{
			name: "a gap in a field that the policy does not set is not its gap", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full), lacks("orders", "retry.budget", "RetryBudget"))},
			conditionType: "Capable", status: isTrue, reason: v1alpha1.ReasonAllCapable,
		},
		{
			name: "nobody says what it can do", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current)},
			conditionType: "Capable", status: isUnknown, reason: v1alpha1.ReasonNoClients,
		},
		{
			name: "reporting was turned off, so nobody can tell", age: time.Second,
			options:       plan.Options{ReportingDisabled: true},
			conditionType: "Capable", status: isUnknown, reason: v1alpha1.ReasonReportingDisabled,
		},
		{
			name: "ready", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full))},
			conditionType: "Ready", status: isTrue, reason: v1alpha1.ReasonReady,
		},
		{
			name: "not ready while documents travel", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, can("nethttp", full))},
			conditionType: "Ready", status: isUnknown, reason: v1alpha1.ReasonPropagating, message: "Acknowledged: ",
		},
		{
			name: "not ready without clients", age: time.Second,
			conditionType: "Ready", status: isUnknown, reason: v1alpha1.ReasonNoClients,
		},
		{
			name: "a capability that is missing goes before a document that travels", age: time.Second,
			reports:       []v1alpha1.ClientReport{report("a", "web", old, can("nethttp", partial))},
			conditionType: "Ready", status: isFalse, reason: v1alpha1.ReasonMissingCapability, message: "Capable: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := in
			in.Options = test.options
			in.Existing = existing(plan.Plan(in))
			in.Existing[0].Since = now.Add(-test.age)
			in.Reports = test.reports
			wantCondition(t, plan.Plan(in), "x", test.conditionType, test.status, test.reason, test.message)
		})
	}
}

func TestAnAcknowledgementIsLatchedForItsGeneration(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	in = store(in, plan.Plan(in))
	current := has(in.Existing[0].Revision)
	in.Reports = []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full))}
	in = store(in, plan.Plan(in))
	since := conditionOf(t, plan.Plan(in), "x", "Acknowledged").LastTransitionTime
	for _, churn := range []struct {
		name    string
		reports []v1alpha1.ClientReport
	}{
		{"new pods come up with the old document", []v1alpha1.ClientReport{report("a", "web", current, can("nethttp", full)), report("b", "web", has("sha256:old"), can("nethttp", full))}},
		{"a new pod refuses", []v1alpha1.ClientReport{report("b", "web", has("sha256:old"), says("x", v1alpha1.PolicyRejected), can("nethttp", full))}},
		{"all pods go", nil},
	} {
		in.Now, in.Reports = in.Now.Add(time.Minute), churn.reports
		out := plan.Plan(in)
		wantCondition(t, out, "x", "Acknowledged", isTrue, v1alpha1.ReasonAllAcknowledged, "")
		wantCondition(t, out, "x", "Ready", isTrue, v1alpha1.ReasonReady, "")
		if got := conditionOf(t, out, "x", "Acknowledged").LastTransitionTime; !got.Equal(&since) {
			t.Errorf("%s: lastTransitionTime moved from %s to %s", churn.name, since, got)
		}
		if len(out.Events) > 0 {
			t.Errorf("%s: events %v", churn.name, out.Events)
		}
		in = store(in, out)
	}
	in.Reports = []v1alpha1.ClientReport{report("b", "web", has("sha256:old"), says("x", v1alpha1.PolicyRejected))}
	if got := statusOf(t, plan.Plan(in), "x").Clients[0]; got.Rejected != 1 || got.Applied != 0 {
		t.Errorf("the refusal has to be counted all the same: %+v", got)
	}

	in.Policies[0].Generation = 2
	out := plan.Plan(in)
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "0 of 1 clients have applied generation 2")
	if got := conditionOf(t, out, "x", "Acknowledged").LastTransitionTime; !got.Time.Equal(in.Now) {
		t.Errorf("lastTransitionTime is %s, want the time of the plan", got)
	}
}

// turning reporting off clears what came from reports, also what was
// latched.
//
// Case O19.
func TestTurningReportingOffClearsTheNumbers(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	in = store(in, plan.Plan(in))
	in.Reports = []v1alpha1.ClientReport{report("a", "web", has(in.Existing[0].Revision), can("nethttp", partial))}
	in = store(in, plan.Plan(in))
	in.Options.ReportingDisabled = true
	out := plan.Plan(in)
	s := statusOf(t, out, "x")
	if s.Summary.Acknowledged != "" || s.Summary.Capable != "" || s.Clients[0].Reporting != 0 || len(s.Capabilities)+len(s.Unsupported) > 0 {
		t.Errorf("numbers are left: %+v", s)
	}
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonReportingDisabled, "")
}

// Case R32.
func TestDeletedAndMadeAnewIsNotAcknowledged(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	in.Policies[0].Generation = 9
	in = store(in, plan.Plan(in))
	before := has(in.Existing[0].Revision)
	anew := newPolicy(t, "x", 0, strings.Replace(forWeb, "total: 1s", "total: 9s", 1))
	anew.UID = "uid-anew"
	in.Policies = []v1alpha1.TimeoutPolicy{anew}
	in.Reports = []v1alpha1.ClientReport{report("a", "web", before, func(c *v1alpha1.ReportedClient) {
		c.Policies = []v1alpha1.ReportedPolicy{{Namespace: "shop", Name: "x", UID: "uid-x", Generation: 9, State: v1alpha1.PolicyApplied}}
	})}
	out := plan.Plan(in)
	wantCondition(t, out, "x", "Acknowledged", isUnknown, v1alpha1.ReasonPropagating, "0 of 1 clients have applied generation 1")
	if s := statusOf(t, out, "x"); s.ObservedGeneration != 1 {
		t.Errorf("observedGeneration is %d", s.ObservedGeneration)
	}
}

func TestCountsAndListsOfTheClients(t *testing.T) {
	in := input(
		newPolicy(t, "wide", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, connect: 100ms}, retry: {maxAttempts: 2, retryableKinds: [WriteTimeout, ReadTimeout]}}]}`),
		newPolicy(t, "web", 0, `{clients: [web], upstreams: [{name: o, hosts: [orders.example.com], timeouts: {bodyIdle: 1s}}]}`),
	)
	in = store(in, plan.Plan(in))
	out := plan.Plan(in)
	web, rest := has(revisionOf(t, out, "web")), has(revisionOf(t, out, ""))
	in.Reports = []v1alpha1.ClientReport{
		report("web-1", "web", web, can("nethttp", full)),
		report("web-2", "web", web, can("nethttp", full), can("fasthttp", partial)),
		report("web-3", "web", has("sha256:old"), says("wide", v1alpha1.PolicyRejected), says("web", v1alpha1.PolicyRejected), can("nethttp", full)),
		report("job-1", "job", rest, can("fasthttp", partial), deadKind("orders", "WriteTimeout", "Bogus")),
		report("cron-1", "cron", rest, deadKind("orders", "WriteTimeout")),
	}
	out = plan.Plan(in)
	s := statusOf(t, out, "wide")
	wantClients := []v1alpha1.ClientStatus{
		{Name: "web", ConfigMap: "timeouts-web", Revision: revisionOf(t, out, "web"), Reporting: 3, Applied: 2, Rejected: 1},
		{Name: "", ConfigMap: "timeouts", Revision: revisionOf(t, out, ""), Reporting: 2, Applied: 2},
	}
	if !reflect.DeepEqual(s.Clients, wantClients) {
		t.Errorf("clients\n got  %+v\n want %+v", s.Clients, wantClients)
	}
	wantUnsupported := []v1alpha1.UnsupportedField{{Upstream: "orders", Field: "timeouts.connect", Capability: "TimeoutConnect", Clients: 2, Example: "job-1/fasthttp"}}
	if !reflect.DeepEqual(s.Unsupported, wantUnsupported) {
		t.Errorf("unsupported\n got  %+v\n want %+v", s.Unsupported, wantUnsupported)
	}
	if want := []v1alpha1.DeadRetryableKind{{Upstream: "orders", Kind: "WriteTimeout", Clients: 2, Example: "cron-1/nethttp"}}; !reflect.DeepEqual(s.DeadRetryableKinds, want) {
		t.Errorf("dead kinds\n got  %+v\n want %+v", s.DeadRetryableKinds, want)
	}
	if want := (v1alpha1.CapabilityStatus{Name: "TimeoutConnect", Degraded: 2, Absent: 2}); s.Capabilities[0] != want {
		t.Errorf("capabilities\n got  %+v\n want %+v first", s.Capabilities, want)
	}
	if s.Summary.Acknowledged != "4/5" || s.Summary.Capable != "2/5" || s.Truncated {
		t.Errorf("summary %+v, truncated %v", s.Summary, s.Truncated)
	}
	if upper := statusOf(t, out, "web"); len(upper.Unsupported) > 0 || upper.Summary.Capable != "3/3" {
		t.Errorf("gaps of another policy's fields: %+v", upper.Unsupported)
	}
}

// A gap has the name that the policy's owner knows, also where the document has
// another policy's.
func TestGapsHaveTheUpstreamNameOfThePolicy(t *testing.T) {
	in := input(
		newPolicy(t, "wide", time.Hour, `{upstreams: [{name: mine, hosts: [orders.example.com], timeouts: {connect: 100ms}}]}`),
		newPolicy(t, "web", 0, `{clients: [web], upstreams: [{name: theirs, hosts: [orders.example.com], timeouts: {total: 1s}}]}`),
	)
	in.Reports = []v1alpha1.ClientReport{report("web-1", "web", lacks("theirs", "timeouts.connect", "TimeoutConnect"))}
	u := statusOf(t, plan.Plan(in), "wide").Unsupported
	if len(u) != 1 || u[0].Upstream != "mine" || u[0].Example != "web-1/fasthttp" {
		t.Errorf("got %+v", u)
	}
}

// mogenius/renovate-operator#616, envoyproxy/gateway#5228.
//
// Cases O16, O17.
func TestAStatusStaysSmallWhateverTheNumberOfPods(t *testing.T) {
	t.Run("ten thousand pods of one client", func(t *testing.T) {
		in := input(newPolicy(t, "x", time.Hour, forWeb))
		in = store(in, plan.Plan(in))
		current := has(in.Existing[0].Revision)
		for i := range 10000 {
			in.Reports = append(in.Reports, report(fmt.Sprintf("web-%d", i), "web", current, can("nethttp", full)))
		}
		out := plan.Plan(in)
		wantSmall(t, out, "x", false)
		if s := statusOf(t, out, "x"); s.Summary.Acknowledged != "10000/10000" || s.Clients[0].Applied != 10000 {
			t.Errorf("got %+v", s.Summary)
		}
	})
	t.Run("more clients, upstreams and gaps than the lists hold", func(t *testing.T) {
		base := newPolicy(t, "x", time.Hour, `{upstreams: [{name: a, hosts: [a.example.com]}]}`)
		base.Spec.Upstreams = nil
		connect := v1alpha1.Duration("1s")
		for i := range 64 {
			base.Spec.Upstreams = append(base.Spec.Upstreams, v1alpha1.Upstream{
				Name: v1alpha1.Label(fmt.Sprintf("upstream-with-a-long-name-%02d", i)), Hosts: []v1alpha1.HostPattern{v1alpha1.HostPattern(fmt.Sprintf("u%d.example.com", i))},
				Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Connect: &connect, BodyIdle: &connect}},
			})
		}
		in := input(base)
		for i := range 100 {
			client := fmt.Sprintf("client-%03d", i)
			p := newPolicy(t, "over-"+client, 0, `{upstreams: [{name: a, hosts: [u1.example.com], timeouts: {bodyIdle: 2s}}]}`)
			p.Spec.Clients = []v1alpha1.ClientName{v1alpha1.ClientName(client)}
			in.Policies = append(in.Policies, p)
			in.Reports = append(in.Reports, report("pod-"+client, client, can("nethttp", levels{"TimeoutConnect": "Absent", "TimeoutBodyIdle": "Absent"})))
		}
		out := plan.Plan(in)
		wantSmall(t, out, "x", true)
		if s := statusOf(t, out, "x"); s.Summary.Acknowledged != "0/100" || len(s.Unsupported) == 0 || s.Unsupported[0].Clients != 100 {
			t.Errorf("counts are of everybody, not of those that are listed: %+v, %+v", s.Summary, s.Unsupported[:1])
		}
	})
}

func wantSmall(t *testing.T, out plan.Output, name string, truncated bool) {
	t.Helper()
	s := statusOf(t, out, name)
	data, err := json.Marshal(s)
	if err != nil || len(data) >= 16<<10 {
		t.Errorf("the status has %d bytes, %v", len(data), err)
	}
	for _, n := range []int{len(s.Clients), len(s.Capabilities), len(s.Unsupported), len(s.DeadRetryableKinds), len(s.Overridden)} {
		if n > v1alpha1.MaxStatusItems {
			t.Errorf("a list has %d entries", n)
		}
	}
	if s.Truncated != truncated {
		t.Errorf("truncated is %v", s.Truncated)
	}
}

// crossplane/crossplane#6856.
//
// Case O25.
func TestPodsOfAnotherNamespaceDoNotCount(t *testing.T) {
	in := input(newPolicy(t, "default", 0, forWeb))
	foreign := report("web-1", "web")
	foreign.Namespace = "elsewhere"
	other := newPolicy(t, "default", time.Hour, forWeb)
	other.Namespace = "elsewhere"
	in.Reports, in.Policies = []v1alpha1.ClientReport{foreign}, append(in.Policies, other)
	out := plan.Plan(in)
	if len(out.Statuses) != 1 || out.Statuses[0].Status.Clients[0].Reporting != 0 {
		t.Errorf("got %+v", out.Statuses)
	}
	wantCondition(t, out, "default", "Acknowledged", isUnknown, v1alpha1.ReasonNoClients, "")
}

// What a pod says is foreign text.
func TestForeignTextIsBoundedAndOnOneLine(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in.Reports = []v1alpha1.ClientReport{report("a", "web", says("x", v1alpha1.PolicyRejected), says("x", v1alpha1.PolicyApplied), func(c *v1alpha1.ReportedClient) {
		c.Policies[0].Message = "first\nsecond\x1b[31m" + strings.Repeat("long ", 1000)
	})}
	out := plan.Plan(in)
	c := conditionOf(t, out, "x", "Acknowledged")
	if strings.ContainsAny(c.Message, "\n\x1b") || len(c.Message) > 1100 {
		t.Errorf("%d bytes: %q", len(c.Message), c.Message)
	}
	if got := statusOf(t, out, "x").Clients[0]; got.Rejected != 1 || got.Applied != 0 || got.Reporting != 1 {
		t.Errorf("a pod that says two things is counted once, by the first: %+v", got)
	}
}

func TestTheNextLookIsWhenAClientBecomesStale(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in = store(in, plan.Plan(in))
	in.Reports = []v1alpha1.ClientReport{report("a", "web", has("sha256:old"))}
	in.Now = now.Add(time.Minute)
	if got := plan.Plan(in).RequeueAfter; got != 2*time.Minute {
		t.Errorf("look again after %s, want 2m", got)
	}
	in.Now = now.Add(3 * time.Minute)
	if out := plan.Plan(in); out.RequeueAfter != 0 {
		t.Errorf("look again after %s, want never", out.RequeueAfter)
	}
}

func TestADocumentThatWasNotWrittenIsNotWaitedFor(t *testing.T) {
	in := input(newPolicy(t, "x", 0, forWeb))
	in.Reports = []v1alpha1.ClientReport{report("a", "web", has(revisionOf(t, plan.Plan(in), "web")))}
	out := plan.Plan(in).WithFailures(map[string]string{"timeouts-web": "forbidden"})
	if s := statusOf(t, out, "x"); s.Clients[0].Applied != 0 || s.Clients[0].Stale != 0 || s.Clients[0].Revision != "" || out.RequeueAfter != 0 {
		t.Errorf("got %+v, look again after %s", s.Clients[0], out.RequeueAfter)
	}
	wantCondition(t, out, "x", "Ready", isFalse, v1alpha1.ReasonRenderFailed, "forbidden")
	wantCondition(t, out.WithFailures(nil), "x", "Acknowledged", isTrue, v1alpha1.ReasonAllAcknowledged, "")
}
