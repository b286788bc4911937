package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// begun opens a call under rules, in fake time.
func begun(t *testing.T, ctx context.Context, e *Engine, rules string) (*Call, error) {
	t.Helper()
	c := new(Call)
	err := c.Begin(ctx, e, swapped(t, e, rules).Lookup("orders", 80, callOf("GET")), "test", "GET")
	return c, err
}

func mustBegin(t *testing.T, ctx context.Context, e *Engine, rules string) *Call {
	t.Helper()
	c, err := begun(t, ctx, e, rules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calling opens a call under a policy, of a caller who never leaves.
func calling(t *testing.T, e *Engine, p *Policy) *Call {
	t.Helper()
	c := new(Call)
	if err := c.Begin(context.Background(), e, p, "test", "GET"); err != nil {
		t.Fatal(err)
	}
	return c
}

// inBubble runs a test in fake time, with an engine whose jitter is at its upper
// end, and checks that no timer is left.
func inBubble(t *testing.T, test func(t *testing.T, e *Engine, timers *clienttest.Timers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		timers := &clienttest.Timers{}
		test(t, New(Options{Clock: timers, Random: func() float64 { return 0.999999 }}), timers)
		synctest.Wait()
		if n := timers.Live(); n != 0 {
			t.Errorf("%d timers were left running", n)
		}
	})
}

const retrying = `"timeouts":{"total":"1s"},"retry":{"maxAttempts":3,"backoff":{"initial":"100ms","jitter":"None"},"budget":{"percent":10,"burst":2}}`

func TestDecide(t *testing.T) {
	timeout := Outcome{Kind: failure.AttemptTimeout, Status: NoStatus, Repeatable: true, Replayable: true}
	with := func(o Outcome, change func(*Outcome)) Outcome { change(&o); return o }
	for _, c := range []struct {
		name    string
		rules   string
		outcome Outcome
		earlier int // attempts before
		retry   bool
		wait    time.Duration
		skip    failure.SkipReason
	}{
		{"success", retrying, Outcome{OK: true}, 0, false, 0, failure.SkipNone},
		{"first failure", retrying, timeout, 0, true, 100 * time.Millisecond, failure.SkipNone},
		{"second failure", retrying, timeout, 1, true, 200 * time.Millisecond, failure.SkipNone},
		{"third failure", retrying, timeout, 2, false, 0, failure.SkipAttempts},
		{"no retry rule", ``, timeout, 0, false, 0, failure.SkipNone},
		{"one attempt", `"retry":{"maxAttempts":1}`, timeout, 0, false, 0, failure.SkipNone},
		{"kind that is not listed", retrying, with(timeout, func(o *Outcome) { o.Kind = failure.TLSError }), 0, false, 0, failure.SkipNone},
		{"kind that is never repeated", `"retry":{"maxAttempts":3,"retryableKinds":["TotalTimeout"]}`, with(timeout, func(o *Outcome) { o.Kind = failure.TotalTimeout }), 0, false, 0, failure.SkipNone},
		{"kind that may be one that is listed", `"retry":{"maxAttempts":3,"retryableKinds":["ConnectError"],"backoff":{"initial":"100ms","jitter":"None"}}`, with(timeout, func(o *Outcome) { o.Kind, o.Covers = failure.Disconnected, failure.NewSet(failure.ConnectError) }), 0, true, 100 * time.Millisecond, failure.SkipNone},
		{"end of the call, whatever it may be besides", `"retry":{"maxAttempts":3,"retryableKinds":["ConnectError"]}`, with(timeout, func(o *Outcome) { o.Kind, o.Covers = failure.TotalTimeout, failure.NewSet(failure.ConnectError) }), 0, false, 0, failure.SkipNone},
		{"status that is listed", retrying, with(timeout, func(o *Outcome) { o.Kind, o.RetryStatus = failure.Status, true }), 0, true, 100 * time.Millisecond, failure.SkipNone},
		{"status that is not", retrying, with(timeout, func(o *Outcome) { o.Kind = failure.Status }), 0, false, 0, failure.SkipNone},
		{"method", retrying, with(timeout, func(o *Outcome) { o.Repeatable = false }), 0, false, 0, failure.SkipMethod},
		{"method, but nothing was done", retrying, with(timeout, func(o *Outcome) { o.Kind, o.Repeatable = failure.Unprocessed, false }), 0, true, 100 * time.Millisecond, failure.SkipNone},
		{"body", retrying, with(timeout, func(o *Outcome) { o.Replayable = false }), 0, false, 0, failure.SkipNonReplayable},
		{"body, though nothing was done", retrying, with(timeout, func(o *Outcome) { o.Kind, o.Replayable = failure.Unprocessed, false }), 0, false, 0, failure.SkipNonReplayable},
		{"Retry-After", retrying, with(timeout, func(o *Outcome) { o.RetryAfter = 300 * time.Millisecond }), 0, true, 300 * time.Millisecond, failure.SkipNone},
		{"Retry-After shorter than the backoff", retrying, with(timeout, func(o *Outcome) { o.RetryAfter = time.Millisecond }), 0, true, 100 * time.Millisecond, failure.SkipNone},
		{"Retry-After that does not fit", retrying, with(timeout, func(o *Outcome) { o.RetryAfter = time.Second }), 0, false, 0, failure.SkipDeadline},
		// go-retryablehttp#247 #283 #295 #298
		{"Retry-After above the cap", `"retry":{"maxAttempts":2,"retryAfter":{"max":"2s"}}`, with(timeout, func(o *Outcome) { o.RetryAfter = time.Hour }), 0, true, 2 * time.Second, failure.SkipNone},
		{"Retry-After with a cap of 0s", `"retry":{"maxAttempts":2,"backoff":{"jitter":"None"},"retryAfter":{"max":"0s"}}`, with(timeout, func(o *Outcome) { o.RetryAfter = time.Hour }), 0, true, 10 * time.Millisecond, failure.SkipNone},
		{"Retry-After ignored", `"retry":{"maxAttempts":2,"backoff":{"jitter":"None"},"retryAfter":{"mode":"Ignore"}}`, with(timeout, func(o *Outcome) { o.RetryAfter = time.Hour }), 0, true, 10 * time.Millisecond, failure.SkipNone},
		// T05 go-retryablehttp#272/#292
		{"backoff that ends at the deadline", `"timeouts":{"total":"100ms"},"retry":{"maxAttempts":2,"backoff":{"initial":"100ms","jitter":"None"}}`, timeout, 0, false, 0, failure.SkipDeadline},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
				call := mustBegin(t, t.Context(), e, c.rules)
				for range c.earlier + 1 {
					call.BeginAttempt()
				}
				got := call.Decide(c.outcome)
				if got != (Decision{Retry: c.retry, Wait: c.wait, Skip: c.skip}) {
					t.Errorf("decided %+v, want retry %t after %s, skip %q", got, c.retry, c.wait, c.skip)
				}
			})
		})
	}
}

// aws-sdk-go-v2#3413 #1665: the budget is per upstream, a refusal has its name,
// and a retry that is never sent gives its token back.
func TestDecideAsksTheRetryBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		failed := Outcome{Kind: failure.Disconnected, Status: NoStatus, Repeatable: true, Replayable: true}
		try := func(send bool) Decision {
			c := mustBegin(t, t.Context(), e, retrying)
			c.BeginAttempt()
			d := c.Decide(failed)
			if d.Retry && send {
				c.BeginAttempt()
			}
			c.Settle(failed, Attribution{}, d)
			return d
		}
		for range 5 {
			if d := try(false); !d.Retry {
				t.Fatalf("a retry that was not sent used the budget up: %+v", d)
			}
		}
		try(true)
		try(true)
		if d := try(true); d.Skip != failure.SkipBudget {
			t.Errorf("decided %+v, want the budget to refuse", d)
		}
		// Another upstream has a budget of its own, also under the same rules.
		other := New(Options{})
		c := mustBegin(t, t.Context(), other, retrying)
		c.BeginAttempt()
		if d := c.Decide(failed); !d.Retry {
			t.Errorf("another engine's budget: %+v", d)
		}
	})
}

func TestOneSignalPerCall(t *testing.T) {
	status := func(code int) Outcome {
		return Outcome{Kind: failure.Status, Status: code, ServerFault: code >= 500}
	}
	kind := func(k failure.Kind) Outcome { return Outcome{Kind: k, Status: NoStatus} }
	callers := Attribution{Source: failure.SourceCaller}
	budgets := Attribution{Source: failure.SourceBudget}
	for _, c := range []struct {
		name    string
		rules   string
		outcome Outcome
		by      Attribution
		want    signal
	}{
		{"success", ``, Outcome{OK: true, Status: 200}, Attribution{}, signalSuccess},
		{"503", ``, status(503), Attribution{}, signalFailure},
		{"404", ``, status(404), Attribution{}, signalSuccess},
		{"429", ``, status(429), Attribution{}, signalSuccess},
		{"503 that does not trip", `"tripKinds":["TotalTimeout"]`, status(503), Attribution{}, signalSuccess},
		{"total", ``, kind(failure.TotalTimeout), Attribution{}, signalFailure},
		{"attempt", ``, kind(failure.AttemptTimeout), Attribution{}, signalFailure},
		{"refused", ``, kind(failure.ConnectError), Attribution{}, signalFailure},
		{"protocol", ``, kind(failure.ProtocolError), Attribution{}, signalFailure},
		{"request body", ``, kind(failure.BodyError), Attribution{}, signalNeutral},
		{"unknown", ``, kind(failure.Unknown), Attribution{}, signalNeutral},
		{"kind that may be one that trips", `"tripKinds":["DNSError"]`, Outcome{Kind: failure.ConnectError, Covers: failure.NewSet(failure.DNSError), Status: NoStatus}, Attribution{}, signalFailure},
		{"attempt that does not trip", `"tripKinds":["DNSError"]`, kind(failure.AttemptTimeout), Attribution{}, signalNeutral},
		{"cancelled", ``, kind(failure.Cancelled), callers, signalNeutral},
		{"caller's deadline", ``, kind(failure.TotalTimeout), callers, signalNeutral},
		{"ambient budget", ``, kind(failure.TotalTimeout), budgets, signalNeutral},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
				call := mustBegin(t, t.Context(), e, fmt.Sprintf(`"circuitBreaker":{"failures":1%s}`, comma(c.rules)))
				if got := call.verdict(c.outcome, c.by); got != c.want {
					t.Errorf("signal %d, want %d", got, c.want)
				}
				call.Settle(c.outcome, c.by, Decision{})
				if open := call.Policy.state.Circuit() == CircuitOpened; open != (c.want == signalFailure) {
					t.Errorf("the circuit is open: %t", open)
				}
			})
		})
	}
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return "," + s
}

// golang/go#46206 #25852: a dead context is found before anything is sent, and
// costs the breaker no probe.
func TestACallThatIsOverBeforeItBegins(t *testing.T) {
	reason := errors.New("the shop is closed")
	for _, c := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		kind   failure.Kind
		source failure.Source
	}{
		{"cancelled", func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(reason)
			return ctx
		}, failure.Cancelled, failure.SourceCaller},
		{"past its deadline", func(ctx context.Context) context.Context {
			ctx, cancel := context.WithDeadlineCause(ctx, time.Now().Add(-1), reason)
			cancel()
			return ctx
		}, failure.TotalTimeout, failure.SourceCaller},
		{"budget spent", func(ctx context.Context) context.Context {
			return deadline.With(ctx, 0)
		}, failure.TotalTimeout, failure.SourceBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
				_, err := begun(t, c.ctx(t.Context()), e, `"timeouts":{"total":"1s"},"circuitBreaker":{"failures":1}`)
				var f *failure.Error
				if !errors.As(err, &f) || f.Kind != c.kind || f.Source != c.source || f.Attempts != 0 {
					t.Fatalf("%v, want %v of the %s", err, c.kind, c.source)
				}
				if c.source == failure.SourceCaller && !errors.Is(err, reason) {
					t.Errorf("%v lost the caller's cause (golang/go#72898)", err)
				}
			})
		})
	}
}

func TestAnOpenCircuitRefusesWithoutTouchingTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		const rules = `"circuitBreaker":{"failures":1,"recovery":"10s"},` + retrying
		c := mustBegin(t, t.Context(), e, rules)
		c.Settle(Outcome{Kind: failure.ConnectError}, Attribution{}, Decision{})
		time.Sleep(time.Second)
		_, err := begun(t, t.Context(), e, rules)
		var f *failure.Error
		if !errors.As(err, &f) || f.Kind != failure.CircuitOpen || f.RetryAfter != 9*time.Second {
			t.Errorf("%v, want CircuitOpen with the time of the next probe", err)
		}
		// In mode Shadow nobody is refused.
		mustBegin(t, t.Context(), e, `"mode":"Shadow",`+rules)
	})
}
