package engine

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// parsed is the policy of the only upstream of a document.
func parsed(t testing.TB, rules string) *Policy {
	t.Helper()
	return swapped(t, New(Options{}), rules).Lookup("orders", 80, document.Call{})
}

// swapped puts a document with the upstream orders in force.
func swapped(t testing.TB, e *Engine, rules string) *Snapshot {
	t.Helper()
	if rules != "" {
		rules = "," + rules
	}
	doc, err := document.Parse([]byte(fmt.Sprintf(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"]%s}]}`, rules)))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return e.Swap(doc)
}

// A14 envoyproxy/gateway#4172: no limit is made up from another one. A17: absent
// is one attempt. A28: nothing that is not repeatable is, unless asked for.
func TestDefaultsOfEachBlock(t *testing.T) {
	for _, c := range []struct {
		name, rules string
		want        Policy
	}{
		{"nothing", ``, Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536}},
		{"attempt alone", `"timeouts":{"attempt":"1s"}`, Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536, Attempt: time.Second}},
		{"no limit said", `"timeouts":{"total":"0s","attempt":"0s","connect":"0s","responseHeader":"0s","bodyIdle":"0s"}`,
			Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536}},
		{"phases", `"timeouts":{"connect":"1s"}`, Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536, Connect: time.Second, needsTracing: true}},
		{"breaker", `"circuitBreaker":{}`, Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536, hasBreaker: true,
			breaker: breakerLimits{failures: 5, recovery: 30 * time.Second, halfOpen: 1, trip: failure.DefaultTrip}}},
		{"deadline", `"deadline":{"header":"x-budget"}`, Policy{MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536, DeadlineHeader: "X-Budget"}},
		{"retry", `"retry":{}`, Policy{
			MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536,
			Backoff:     Backoff{10 * time.Millisecond, time.Second, 2, document.JitterFull},
			RetryKinds:  failure.DefaultRetryable,
			retryStatus: statuses(429, 502, 503, 504), retryGRPC: 1 << grpcUnavailable,
			methods: defaultMethods, idemHeaders: []string{"Idempotency-Key"},
		}},
		{"budget", `"retry":{"maxAttempts":2,"budget":{}}`, Policy{
			MaxAttempts: 2, RetryAfterMax: time.Minute, ReplayBytes: 65536,
			Backoff:     Backoff{10 * time.Millisecond, time.Second, 2, document.JitterFull},
			RetryKinds:  failure.DefaultRetryable,
			retryStatus: statuses(429, 502, 503, 504), retryGRPC: 1 << grpcUnavailable,
			methods: defaultMethods, idemHeaders: []string{"Idempotency-Key"},
			hasBudget: true, budget: budgetLimits{percent: 10, burst: 10},
		}},
		{"empty lists are none", `"retry":{"retryableKinds":[],"retryableStatusCodes":[],"retryableGRPCCodes":[],"methods":[],"idempotencyHeaders":[]}`, Policy{
			MaxAttempts: 1, RetryAfterMax: time.Minute, ReplayBytes: 65536,
			Backoff: Backoff{10 * time.Millisecond, time.Second, 2, document.JitterFull},
			methods: []string{}, listsGRPC: true,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := *parsed(t, c.rules)
			got.Upstream, got.state, got.recorders = "", nil, nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("compiled to\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func statuses(codes ...int) (s statusSet) {
	for _, c := range codes {
		s.add(c)
	}
	return s
}

func TestEachFieldIsCompiled(t *testing.T) {
	p := parsed(t, `"mode":"Shadow",
		"timeouts":{"total":"5s","attempt":"4s","connect":"1s","responseHeader":"2s","bodyIdle":"3s","scope":"Headers"},
		"retry":{"maxAttempts":7,"backoff":{"initial":"1s","max":"9s","factor":3,"jitter":"Equal"},
			"retryableKinds":["DNSError","TotalTimeout"],"retryableStatusCodes":[400,599],"retryableGRPCCodes":["ABORTED","UNAUTHENTICATED"],
			"methods":["POST"],"idempotencyHeaders":["x-once"],"maxReplayBytes":0,"retryAfter":{"mode":"Ignore","max":"1s"},"budget":{"percent":50,"burst":7}},
		"deadline":{"header":"X-D","reserve":"20ms","inbound":"Ignore"},
		"circuitBreaker":{"failures":2,"recovery":"1m","halfOpen":4,"tripKinds":["Status"]}`)
	want := Policy{
		Upstream: "orders", Shadow: true,
		Total: 5 * time.Second, Attempt: 4 * time.Second, Connect: time.Second, ResponseHeader: 2 * time.Second, BodyIdle: 3 * time.Second,
		Scope: document.ScopeHeaders, MaxAttempts: 7, Backoff: Backoff{time.Second, 9 * time.Second, 3, document.JitterEqual},
		// TotalTimeout can be asked for but is never repeated.
		RetryKinds:  failure.NewSet(failure.DNSError),
		ReplayBytes: 0, RetryAfterMax: -1,
		DeadlineHeader: "X-D", DeadlineReserve: 20 * time.Millisecond, IgnoreBudget: true,
		retryStatus: statuses(400, 599), retryGRPC: 1<<10 | 1<<16, listsGRPC: true, methods: []string{"POST"}, idemHeaders: []string{"X-Once"},
		budget: budgetLimits{50, 7}, hasBudget: true, needsTracing: true, hasBreaker: true,
		breaker: breakerLimits{2, time.Minute, 4, failure.NewSet(failure.Status)},
	}
	got := *p
	got.state = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("compiled to\n%+v, want\n%+v", got, want)
	}
}

// A15 envoyproxy/envoy#39470: the words that are known apply, the rest is
// reported (by package capability) and has no effect.
func TestUnknownKindsDoNothing(t *testing.T) {
	p := parsed(t, `"retry":{"maxAttempts":2,"retryableKinds":["Teleported","DNSError"]}`)
	if p.RetryKinds != failure.NewSet(failure.DNSError) {
		t.Errorf("kinds %v", p.RetryKinds.Kinds())
	}
}

func TestStatusSet(t *testing.T) {
	s := statuses(400, 463, 464, 599, 399, 600, -1, math.MaxInt)
	for _, code := range []int{400, 463, 464, 599} {
		if !s.has(code) {
			t.Errorf("%d is missing", code)
		}
	}
	for _, code := range []int{399, 401, 465, 598, 600, 0, -1, math.MinInt, math.MaxInt} {
		if s.has(code) {
			t.Errorf("%d is there", code)
		}
	}
}

func TestRetriesGRPC(t *testing.T) {
	p := parsed(t, `"retry":{}`)
	for code := -1; code <= 32; code++ {
		if got := p.RetriesGRPC(code); got != (code == grpcUnavailable) {
			t.Errorf("code %d: %t", code, got)
		}
	}
}

func TestListsGRPC(t *testing.T) {
	if p := parsed(t, `"retry":{}`); p.ListsGRPC(grpcUnavailable) {
		t.Error("the default code is taken for the policy's own word")
	}
	if p := parsed(t, `"retry":{"retryableGRPCCodes":["UNAVAILABLE"]}`); !p.ListsGRPC(grpcUnavailable) || p.ListsGRPC(10) {
		t.Error("a listed code is not told from one that is not")
	}
}

// A28 istio/istio#50506, #13851, dotnet/extensions#5248.
func TestRepeatable(t *testing.T) {
	p := parsed(t, `"retry":{}`)
	key := http.Header{"Idempotency-Key": {"7"}}
	for _, c := range []struct {
		method string
		header http.Header
		want   bool
	}{
		{"", nil, true}, {"GET", nil, true}, {"HEAD", nil, true}, {"PUT", nil, true}, {"DELETE", nil, true}, {"OPTIONS", nil, true}, {"TRACE", nil, true},
		{"POST", nil, false}, {"PATCH", nil, false}, {"CONNECT", nil, false}, {"get", nil, false},
		{"POST", key, true}, {"PATCH", key, true}, {"POST", http.Header{"Idempotency-Key": {}}, false},
	} {
		if got := p.Repeatable(c.method, c.header); got != c.want {
			t.Errorf("%q with %v: %t, want %t", c.method, c.header, got, c.want)
		}
	}
}
