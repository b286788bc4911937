package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// TestValidPoliciesAreStoredAsWritten stores each policy and reads it back: the
// API server neither changes nor drops nor adds anything, and neither does a
// pass through the Go types, so absent, "0s" and [] stay three things.
func TestValidPoliciesAreStoredAsWritten(t *testing.T) {
	client := cluster.Resource(policies).Namespace("default")
	for i, test := range validPolicies() {
		t.Run(test.name, func(t *testing.T) {
			policy := policyFrom(test.spec)
			policy.SetName(fmt.Sprintf("valid-%d", i))
			want := policy.DeepCopy()
			_, err := client.Create(t.Context(), policy, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			t.Cleanup(func() {
				if err := client.Delete(context.WithoutCancel(t.Context()), policy.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
			stored, err := client.Get(t.Context(), policy.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(t, want.Object["spec"]), plain(t, stored.Object["spec"])); diff != "" {
				t.Errorf("the API server changed the spec (-written +stored):\n%s", diff)
			}
			if diff := cmp.Diff(plain(t, want.Object["spec"]), plain(t, typed(t, stored).Spec)); diff != "" {
				t.Errorf("the Go types changed the spec (-written +typed):\n%s", diff)
			}
		})
	}
}

// plain brings a value into the form of encoding/json.
func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func typed(t *testing.T, o *unstructured.Unstructured) *v1alpha1.TimeoutPolicy {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.TimeoutPolicy{}
	if err := json.Unmarshal(data, policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

type validPolicy struct{ name, spec string }

func validPolicies() []validPolicy {
	all := []validPolicy{
		{"the smallest", "upstreams: [{name: a, hosts: [a]}]"},
		{"everything at once", everything},
		{"clients", "clients: [checkout, cart-2]\nupstreams: [{name: a, hosts: [a]}]"},
		{"mode Enforce", "mode: Enforce\nupstreams: [{name: a, hosts: [a]}]"},
		{"mode Shadow", "mode: Shadow\nupstreams: [{name: a, hosts: [a]}]"},
		{"mode Disabled", "mode: Disabled\nupstreams: [{name: a, hosts: [a]}]"},
		{"onUnsupported Reject", "onUnsupported: Reject\nupstreams: [{name: a, hosts: [a]}]"},
		{"a service alone", "upstreams: [{name: a, service: {name: a}}]"},
		{"a service beside hosts", "upstreams: [{name: a, service: {name: a, namespace: shop, port: 8080}, hosts: [a.example.com]}]"},
		{"one service with two ports", "upstreams: [{name: a, service: {name: a, port: 80}}, {name: b, service: {name: a, port: 81}}]"},
		{"one service name in two namespaces", "upstreams: [{name: a, service: {name: a, namespace: x}}, {name: b, service: {name: a, namespace: z}}]"},
		{"a service with and without its port", "upstreams: [{name: a, service: {name: a}}, {name: b, service: {name: a, port: 80}}]"},
		{"names of 63 characters", fmt.Sprintf("clients: [%[1]s]\nupstreams: [{name: %[1]s, hosts: [a]}]", strings.Repeat("a", 63))},
		{"empty defaults", "defaults: {}\nupstreams: [{name: a, hosts: [a]}]"},
		{"defaults that an upstream narrows", "defaults: {timeouts: {total: 5s, attempt: 1s}}\nupstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]"},
		{"an upstream that takes an inherited attempt away", "defaults: {timeouts: {attempt: 2s}}\nupstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 0s}}]"},
		{"an upstream that takes an inherited total away", "defaults: {timeouts: {total: 1s}}\nupstreams: [{name: a, hosts: [a], timeouts: {total: 0s, attempt: 2s}}]"},
		{"a route that takes an inherited total away", "upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}, routes: [{name: r, match: {path: /r}, timeouts: {total: 0s, attempt: 2s}}]}]"},
		{"an upstream between defaults and a route", "defaults: {timeouts: {total: 1s}}\nupstreams: [{name: a, hosts: [a], timeouts: {total: 5s}, routes: [{name: r, match: {path: /r}, timeouts: {attempt: 2s}}]}]"},
		{"a route below the ceiling of its upstream", "upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 400ms}, routes: [{name: r, match: {path: /r}, timeouts: {total: 10s}}]}]"},
	}
	for _, rules := range []struct{ name, text string }{
		{"a limit equal to the one around it", "timeouts: {total: 1s, attempt: 1000ms, connect: 1s, responseHeader: 1s}"},
		{"an attempt without a total", "timeouts: {attempt: 400ms}"},
		{"an attempt with total 0s", "timeouts: {total: 0s, attempt: 2s}"},
		{"an attempt of 0s", "timeouts: {total: 5s, attempt: 0s}"},
		{"a responseHeader with attempt 0s", "timeouts: {total: 5s, attempt: 0s, responseHeader: 300ms, connect: 100ms}"},
		{"a responseHeader over the total without an attempt", "timeouts: {total: 1s, responseHeader: 2s}"},
		{"a bodyIdle over the attempt", "timeouts: {total: 5s, attempt: 400ms, bodyIdle: 2s}"},
		{"scope Headers", "timeouts: {total: 1s, scope: Headers}"},
		{"the largest duration", "timeouts: {total: 99999h}"},
		{"a duration of four parts", "timeouts: {total: 1h1m1s1ms}"},
		{"limits in parts of one unit", "timeouts: {total: 1s1s, attempt: 2s}"},
		{"empty blocks", "timeouts: {}\nretry: {backoff: {}, retryAfter: {}, budget: {}}\ndeadline: {}\ncircuitBreaker: {}"},
		{"one attempt", "retry: {maxAttempts: 1}"},
		{"ten attempts", "retry: {maxAttempts: 10}"},
		{"a constant backoff", "retry: {maxAttempts: 2, backoff: {initial: 100ms, max: 100ms, factor: 1, jitter: None}}"},
		{"a backoff without a maximum", "retry: {maxAttempts: 2, backoff: {initial: 5s, max: 0s}}"},
		{"no wait", "retry: {maxAttempts: 2, backoff: {initial: 0s, max: 1s}}"},
		{"empty lists", "retry: {retryableKinds: [], retryableStatusCodes: [], retryableGRPCCodes: [], methods: [], idempotencyHeaders: []}\ncircuitBreaker: {tripKinds: []}"},
		{"every kind", "retry: {retryableKinds: [ConnectTimeout, ConnectError, DNSError, TLSError, PoolTimeout, AttemptTimeout, ReadTimeout, WriteTimeout, TotalTimeout, Disconnected, Unprocessed, ProtocolError, BodyError, Status, Cancelled, CircuitOpen, Unknown]}"},
		{"the edges of the status codes", "retry: {retryableStatusCodes: [400, 599]}"},
		{"every gRPC code that says failure", "retry: {retryableGRPCCodes: [CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED]}"},
		{"a method of its own", "retry: {methods: [PURGE, M-SEARCH]}"},
		{"header names with every token character", "retry: {idempotencyHeaders: [\"X!#$%&'*+-.^_`|~9\"]}"},
		{"no replay buffer", "retry: {maxReplayBytes: 0}"},
		{"the largest replay buffer", "retry: {maxReplayBytes: 16777216}"},
		{"retryAfter", "retry: {retryAfter: {mode: Ignore, max: 0s}}"},
		{"a budget of nothing", "retry: {budget: {percent: 0, burst: 0}}"},
		{"the largest budget", "retry: {budget: {percent: 100, burst: 100000}}"},
		{"a deadline header", "deadline: {header: X-Deadline-Ms, reserve: 20ms, inbound: Ignore}"},
		{"no deadline header where one would be inherited", "deadline: {header: \"\"}"},
		{"the edges of a breaker", "circuitBreaker: {failures: 10000, recovery: 1ms, halfOpen: 100}"},
		{"routes by path", "routes: [{name: a, match: {path: /a}}, {name: b, match: {path: /a, pathMatch: Exact}}, {name: c, match: {path: /a, methods: [POST]}}]"},
		{"routes by gRPC method", "routes: [{name: a, match: {grpc: {service: shop.v1.Orders, method: Refund}}}, {name: b, match: {grpc: {service: shop.v1.Orders}}}, {name: c, match: {grpc: {method: Refund}}}, {name: d, match: {grpc: {}}}]"},
		{"a route that matches everything", "routes: [{name: a, match: {}}]"},
	} {
		all = append(all, validPolicy{rules.name, upstreamWith(rules.text)})
	}
	return all
}

// everything has each field of the spec once.
const everything = `
clients: [checkout]
mode: Enforce
onUnsupported: Report
defaults:
  timeouts: {total: 2s, scope: Body}
  retry: {maxAttempts: 2}
  deadline: {inbound: Shorten}
  circuitBreaker: {failures: 5}
upstreams:
- name: orders
  service: {name: orders, namespace: shop, port: 8080}
  hosts: ["orders.example.com:8443", "*.orders.example.com"]
  timeouts: {total: 1s, attempt: 400ms, connect: 100ms, responseHeader: 300ms, bodyIdle: 2s, scope: Body}
  retry:
    maxAttempts: 3
    backoff: {initial: 10ms, max: 1s, factor: 2, jitter: Full}
    retryableKinds: [AttemptTimeout, ConnectTimeout, ConnectError, DNSError, ReadTimeout, Disconnected, Unprocessed]
    retryableStatusCodes: [429, 502, 503, 504]
    retryableGRPCCodes: [UNAVAILABLE]
    methods: [GET, HEAD, PUT, DELETE, OPTIONS, TRACE]
    idempotencyHeaders: [Idempotency-Key]
    maxReplayBytes: 65536
    retryAfter: {mode: Honor, max: 60s}
    budget: {percent: 10, burst: 10}
  deadline: {header: X-Deadline-Ms, reserve: 20ms, inbound: Shorten}
  circuitBreaker: {failures: 5, recovery: 30s, halfOpen: 1, tripKinds: [AttemptTimeout, ConnectError]}
  routes:
  - name: refunds
    match: {methods: [POST], path: /v1/refunds/, pathMatch: Prefix}
    timeouts: {total: 10s}
    retry: {maxAttempts: 1}
    deadline: {header: ""}
    circuitBreaker: {halfOpen: 2}
  - name: refund-rpc
    match: {grpc: {service: shop.v1.Orders, method: Refund}}
    timeouts: {total: 10s}
`
