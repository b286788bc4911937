package api

import (
	"strings"
	"testing"
)

// TestDoubtfulPoliciesAreAcceptedWithAWarning holds one object against each
// warning: it is accepted, and warned of for that alone.
func TestDoubtfulPoliciesAreAcceptedWithAWarning(t *testing.T) {
	for _, test := range []struct{ name, spec, warning string }{
		{"no limit at all",
			"upstreams: [{name: orders, hosts: [a]}]",
			`timeouts.total is not set in this policy (upstream orders): a call has no overall limit unless another policy sets one; set timeouts.total ("0s" if none is wanted)`},
		{"an attempt alone",
			"upstreams: [{name: orders, hosts: [a], timeouts: {attempt: 1s}}, {name: users, hosts: [b], timeouts: {total: 1s}}]",
			"timeouts.total is not set in this policy (upstream orders): "},
		{"retry without a total",
			"upstreams: [{name: orders, hosts: [a], timeouts: {attempt: 1s}, retry: {maxAttempts: 3}}]",
			"retry without timeouts.total (upstream orders): attempts and backoff add up; set timeouts.total"},
		{"retry with a total of 0s",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 0s}, retry: {maxAttempts: 3}}]",
			"retry without timeouts.total (upstream orders): "},
		{"attempts that cannot fit",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s, attempt: 500ms}, retry: {maxAttempts: 3}}]",
			"retry.maxAttempts does not fit into timeouts.total (upstream orders): after attempts of full length nothing is left for the last one; lower timeouts.attempt or retry.maxAttempts, or raise timeouts.total"},
		{"attempts of a route that cannot fit into what it inherits",
			"defaults: {timeouts: {total: 1s}}\nupstreams: [{name: orders, hosts: [a], timeouts: {attempt: 500ms}, routes: [{name: slow, match: {path: /slow}, retry: {maxAttempts: 3}}]}]",
			"retry.maxAttempts does not fit into timeouts.total (route orders/slow): "},
		{"retry without maxAttempts",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {backoff: {factor: 3}}}]",
			"retry without retry.maxAttempts (upstream orders): nothing is repeated unless another policy sets it; set retry.maxAttempts"},
		{"a backoff that the default maximum cuts",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1m}, retry: {maxAttempts: 3, backoff: {initial: 5s}}}]",
			"retry.backoff.initial is longer than the default of retry.backoff.max, 1s (upstream orders): each wait is cut to 1s; set retry.backoff.max"},
		{"a backoff as long as the total",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, backoff: {initial: 1s}}}]",
			"retry.backoff.initial is not shorter than timeouts.total (upstream orders): the wait before a retry can outlast the call; lower retry.backoff.initial"},
		{"a reserve as long as the total",
			"defaults: {deadline: {reserve: 1s}}\nupstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}}]",
			"deadline.reserve is not shorter than timeouts.total (upstream orders): nothing is left for the upstream; lower deadline.reserve"},
		{"POST among the methods",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, methods: [GET, POST]}}]",
			"retry.methods has a method that is not idempotent (upstream orders): the upstream may carry out a repeated request twice; list a key in retry.idempotencyHeaders in its place"},
		{"a method in lower case",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, methods: [get]}}]",
			"methods in lower case (upstream orders): methods are compared letter by letter, and GET is not get; write them in upper case"},
		{"a method in lower case in a match",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, routes: [{name: refunds, match: {methods: [Post]}}]}]",
			"methods in lower case (route orders/refunds): "},
		{"a kind that is never repeated",
			"defaults: {timeouts: {total: 1s}, retry: {maxAttempts: 2, retryableKinds: [AttemptTimeout, TotalTimeout]}}\nupstreams: [{name: orders, hosts: [a]}]",
			"retry.retryableKinds has TotalTimeout, Cancelled or CircuitOpen (defaults): the call is over then and nothing is repeated; leave them out"},
		{"every failed response",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, retryableKinds: [Status]}}]",
			"retry.retryableKinds has Status (upstream orders): every failed response is repeated, whatever its code; list the codes in retry.retryableStatusCodes or retry.retryableGRPCCodes in its place"},
		{"nothing that could be repeated",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, retryableKinds: [], retryableStatusCodes: [], retryableGRPCCodes: []}}]",
			"retry lists no kind, status code or gRPC code (upstream orders): nothing is ever repeated; to say so, set retry.maxAttempts: 1"},
		{"a budget of nothing",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, budget: {percent: 0, burst: 0}}}]",
			"retry.budget has neither percent nor burst (upstream orders): nothing is ever repeated; to say so, set retry.maxAttempts: 1"},
		{"a breaker that never opens",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, circuitBreaker: {tripKinds: []}}]",
			"circuitBreaker.tripKinds is empty (upstream orders): the breaker never opens; list the kinds that count, or leave tripKinds out"},
		{"a breaker that counts what never counts",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, circuitBreaker: {tripKinds: [Cancelled, ReadTimeout]}}]",
			"circuitBreaker.tripKinds has Cancelled or CircuitOpen (upstream orders): these never count as a failure of the upstream; leave them out"},
		{"an empty match",
			"upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, routes: [{name: all, match: {}}]}]",
			"match is empty (route orders/all): the route takes every call of its upstream; set methods, path or grpc, or move the rules to the upstream"},
		{"one host in two spellings",
			"upstreams: [{name: orders, hosts: [Orders.example.com], timeouts: {total: 1s}}, {name: users, hosts: ['orders.example.com.'], timeouts: {total: 1s}}]",
			"hosts that differ in letter case or a trailing dot alone (orders.example.com): they are the same host, and the policy will not be accepted; leave each in one upstream"},
	} {
		t.Run(test.name, func(t *testing.T) {
			warnings, err := tryPolicy(t.Context(), policyFrom(test.spec))
			if err != nil {
				t.Fatalf("a warning never refuses, got %v", err)
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], test.warning) {
				t.Errorf("want one warning that says %q, got:\n%s", test.warning, strings.Join(warnings, "\n"))
			}
		})
	}
}

// TestSoundPoliciesAreNotWarnedOf keeps the warnings from crying wolf.
func TestSoundPoliciesAreNotWarnedOf(t *testing.T) {
	for _, test := range []struct{ name, spec string }{
		{"everything at once", everything},
		{"three attempts of which the last is cut", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s, attempt: 400ms}, retry: {maxAttempts: 3}}]"},
		{"no limit on purpose", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 0s}}]"},
		{"a total in defaults", "defaults: {timeouts: {total: 1s}}\nupstreams: [{name: orders, hosts: [a]}]"},
		{"retry without a budget", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2}}]"},
		{"maxAttempts in defaults", "defaults: {timeouts: {total: 1s}, retry: {maxAttempts: 2}}\nupstreams: [{name: orders, hosts: [a], retry: {methods: [GET]}}]"},
		{"a long backoff with its maximum", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 1m}, retry: {maxAttempts: 2, backoff: {initial: 5s, max: 10s}}}]"},
		{"a bodyIdle over the total, which streams need", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s, bodyIdle: 5s}}]"},
		{"no kinds but status codes", "upstreams: [{name: orders, hosts: [a], timeouts: {total: 1s}, retry: {maxAttempts: 2, retryableKinds: []}}]"},
		{"hosts on two ports", "upstreams: [{name: orders, hosts: ['a:80'], timeouts: {total: 1s}}, {name: users, hosts: ['a:81', '[::1]', '*.a'], timeouts: {total: 1s}}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			warnings, err := tryPolicy(t.Context(), policyFrom(test.spec))
			if err != nil || len(warnings) > 0 {
				t.Errorf("want neither error nor warning, got %v and:\n%s", err, strings.Join(warnings, "\n"))
			}
		})
	}
}
