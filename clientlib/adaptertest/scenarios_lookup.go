package adaptertest

import (
	"cmp"
	"fmt"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var lookupScenarios = []scenario{
	{"a route's rules go before its upstream's", []capability.Name{capability.TimeoutTotal}, []Feature{Waits}, routeGoesFirst},
	{"a route that does not match changes nothing", []capability.Name{capability.TimeoutTotal}, []Feature{Waits}, otherRoute},
	{"a host that no policy names is left alone", nil, nil, noPolicy},
	{"the policy's own list says which status is repeated", retries, []Feature{Breaks, Fails}, listedStatus},
}

// routes are rules with one route for every call, and its own rules.
func (a *Adapter) routes(rules, ofRoute string) string {
	match := cmp.Or(a.Match, `{"path":"/","pathMatch":"Prefix"}`)
	return fmt.Sprintf(`%s,"routes":[{"name":"all","match":%s,%s}]`, rules, match, ofRoute)
}

// The name of a route is the policy's, whatever the call site says.
func routeGoesFirst(l *lab) {
	b := l.open(l.a.routes(unlimited, fmt.Sprintf(`"timeouts":{"total":"%s"}`, ample)), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}, Options: []clientlib.CallOption{clientlib.Route("/orders/{id}")}})
	b.expect(o, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 1})
	for _, e := range b.events.Calls() {
		if e.Route != "all" {
			l.findf("the call is told of with route %q, want the policy's", e.Route)
		}
	}
}

func otherRoute(l *lab) {
	rules := fmt.Sprintf(`"timeouts":{"total":"%s"},"routes":[
		{"name":"path","match":{"path":"/nowhere","pathMatch":"Prefix"},"timeouts":{"total":"60s"}},
		{"name":"service","match":{"grpc":{"service":"nobody.Here"}},"timeouts":{"total":"60s"}}]`, ample)
	b := l.open(rules, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 1})
}

// noPolicy swaps the policy for one of another host.
func noPolicy(l *lab) {
	b := l.open(unlimited, Setup{})
	b.client.Engine().Swap(policytest.Rules(l.t, `"timeouts":{"total":"1ms"}`, "elsewhere.invalid"))
	b.unpoliced = true
	if o := b.do(Call{Body: "question"}); !o.ok || o.Body != "question" || b.requests() != 1 {
		l.findf("the call ended with %s and the answer %q after %d requests", o, o.Body, b.requests())
	}
}

// listedStatus lists the status that no default repeats, in the words of each
// protocol, and leaves out the usual one.
func listedStatus(l *lab) {
	const rules = `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"},"retryableStatusCodes":[500],"retryableGRPCCodes":["INTERNAL"]}`
	b := l.open(rules, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Breaks}})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipAttempts, requests: 2})
	b = l.open(rules, Setup{})
	o = b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Status, requests: 1})
}
