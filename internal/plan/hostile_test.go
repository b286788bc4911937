package plan_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// planWithin plans and fails the test when that allocates more than it may: what
// multiplies shows in memory whatever the machine does at the time.
func planWithin(t *testing.T, in plan.Input, mebibytes uint64) plan.Output {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := plan.Plan(in)
	runtime.ReadMemStats(&after)
	got := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("measured: %d policies, %d documents, %d MiB allocated", len(in.Policies), len(out.Documents), got)
	if got > mebibytes {
		t.Errorf("planning allocated %d MiB, more than %d", got, mebibytes)
	}
	return out
}

// rulesText are rules of many fields, so that each route takes its space.
const rulesText = `timeouts: {total: 2s, attempt: 400ms, connect: 100ms}, retry: {maxAttempts: 3, methods: [GET, HEAD], retryableStatusCodes: [429, 503]}`

// routesText are sixteen routes that no other prefix covers.
func routesText(prefix string) string {
	var routes []string
	for i := range 16 {
		routes = append(routes, fmt.Sprintf("{name: %s%d, match: {path: /%s%d, methods: [M%d]}, %s}", prefix, i, prefix, i, i, rulesText))
	}
	return "[" + strings.Join(routes, ", ") + "]"
}

// The largest policy that the schema lets in: 64 upstreams with 16 hosts and 16
// routes each.
func TestTheLargestPolicyFits(t *testing.T) {
	var spec strings.Builder
	spec.WriteString("upstreams:\n")
	for u := range 64 {
		fmt.Fprintf(&spec, "- name: u%d\n  hosts: [", u)
		for h := range 16 {
			fmt.Fprintf(&spec, "h%d.u%d.example.com, ", h, u)
		}
		fmt.Fprintf(&spec, "]\n  timeouts: {total: 1s}\n  routes: %s\n", strings.ReplaceAll(routesText("r"), rulesText, "timeouts: {total: 2s}"))
	}
	out := planWithin(t, input(newPolicy(t, "large", time.Hour, spec.String())), 64)
	wantCondition(t, out, "large", v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed, "")
	if n := len(documentOf(t, out, "").Upstreams); n != 64 {
		t.Errorf("the document has %d upstreams", n)
	}
}

// Hosts for any port under wildcards for very many ports multiply to a million.
func TestHostsAndPortsThatMultiplyAreTooLarge(t *testing.T) {
	policies := []v1alpha1.TimeoutPolicy{newPolicy(t, "first", time.Hour, "upstreams: [{name: first, hosts: [first.example.org], timeouts: {total: 1s}}]")}
	for i := range 16 {
		var ports, hosts strings.Builder
		for u := range 64 {
			fmt.Fprintf(&ports, "- {name: p%d, hosts: ['*.example.com:%d'], timeouts: {total: 1s}}\n", u, 1+64*i+u)
			fmt.Fprintf(&hosts, "- {name: h%d, hosts: [h%d-%d.example.com], timeouts: {total: 1s}}\n", u, i, u)
		}
		policies = append(policies,
			newPolicy(t, fmt.Sprintf("ports-%02d", i), time.Minute, "upstreams:\n"+ports.String()),
			newPolicy(t, fmt.Sprintf("hosts-%02d", i), time.Minute, "upstreams:\n"+hosts.String()))
	}
	out := planWithin(t, input(policies...), 96)
	wantCondition(t, out, "first", v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed, "")
	wantCondition(t, out, "ports-15", v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonDocumentTooLarge, "more than 32768 combinations of hosts and ports")
}

// Sixteen routes for everything under a wildcard, and sixteen others for each of
// very many hosts, multiply host by host.
func TestRoutesThatMultiplyAreTooLarge(t *testing.T) {
	policies := []v1alpha1.TimeoutPolicy{
		newPolicy(t, "first", 3*time.Hour, "upstreams: [{name: first, hosts: [first.example.org], timeouts: {total: 1s}}]"),
		newPolicy(t, "wide", 2*time.Hour, "upstreams: [{name: wide, hosts: ['*.example.com'], "+rulesText+", routes: "+routesText("w")+"}]"),
	}
	for i := range 6 {
		var spec strings.Builder
		for u := range 20 {
			fmt.Fprintf(&spec, "- {name: u%d, hosts: [h%d-%d.example.com], timeouts: {total: 1s}, routes: %s}\n", u, i, u,
				strings.ReplaceAll(routesText("r"), "/r", "/w0/r"))
		}
		policies = append(policies, newPolicy(t, fmt.Sprintf("hosts-%02d", i), time.Minute, "upstreams:\n"+spec.String()))
	}
	in := input(policies...)
	in.Memo = &plan.Memo{}
	out := planWithin(t, in, 60)
	wantCondition(t, out, "wide", v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed, "")
	wantCondition(t, out, "hosts-05", v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonDocumentTooLarge, "more than 524288 bytes")
	planWithin(t, in, 32)
}
