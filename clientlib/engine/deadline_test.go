package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// window is a source of a client's own.
type window time.Duration

func (w window) Remaining() time.Duration { return time.Duration(w) }
func (w window) Expired() bool            { return w <= 0 }

// The tightest of total, budget, the client's own source, cap and the caller's
// deadline ends the call, and says so. The reserve is kept back from budgets,
// and once from what the peer is told.
func TestTheTightestLimitEndsTheCallAndTheReserveIsKeptBackOnce(t *testing.T) {
	budget := func(d time.Duration) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return deadline.With(ctx, d) }
	}
	capped := func(d time.Duration) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			return WithCallOptions(ctx, CallOptions{Cap: d})
		}
	}
	caller := func(d time.Duration) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, d)
			t.Cleanup(cancel)
			return ctx
		}
	}
	type layers = []func(context.Context) context.Context
	const (
		told   = `"deadline":{"header":"X-Deadline-Ms","reserve":"100ms"}`
		total  = `"timeouts":{"total":"1s"},`
		ignore = `"deadline":{"header":"X-Deadline-Ms","reserve":"100ms","inbound":"Ignore"}`
	)
	const none = -1
	for _, c := range []struct {
		name, rules string
		own         deadline.Source
		layers      layers
		left, told  int64 // milliseconds
		source      failure.Source
	}{
		{"nothing", told, nil, nil, none, none, 0},
		{"total", total + told, nil, nil, 1000, 900, failure.SourcePolicy},
		{"budget", told, nil, layers{budget(time.Second)}, 900, 900, failure.SourceBudget},
		{"budget tighter than the total", total + told, nil, layers{budget(500 * time.Millisecond)}, 400, 400, failure.SourceBudget},
		{"budget as long as the total", total + told, nil, layers{budget(time.Second)}, 900, 900, failure.SourceBudget},
		{"budget within a reserve of the total", total + told, nil, layers{budget(1050 * time.Millisecond)}, 950, 900, failure.SourceBudget},
		{"budget that is looser", total + told, nil, layers{budget(time.Minute)}, 1000, 900, failure.SourcePolicy},
		{"budget that is ignored", ignore, nil, layers{budget(time.Second)}, none, none, 0},
		{"the client's own is not ignored", ignore, window(time.Second), layers{budget(10 * time.Millisecond)}, 900, 900, failure.SourceBudget},
		{"the client's own outlives a detached block", told, window(time.Second), layers{budget(10 * time.Millisecond), deadline.Detach}, 900, 900, failure.SourceBudget},
		{"the client's own is unlimited", told, window(math.MaxInt64), nil, none, none, 0},
		{"the tighter of both", told, window(2 * time.Second), layers{budget(time.Second)}, 900, 900, failure.SourceBudget},
		{"caller", total + told, nil, layers{caller(500 * time.Millisecond)}, 500, 400, failure.SourceCaller},
		{"cap", total + told, nil, layers{capped(500 * time.Millisecond)}, 500, 400, failure.SourceCaller},
		{"cap that is looser", total + told, nil, layers{capped(time.Minute)}, 1000, 900, failure.SourcePolicy},
		{"cap inside a budget", told, nil, layers{capped(500 * time.Millisecond), budget(time.Second)}, 500, 400, failure.SourceCaller},
		{"cap where the budget is ignored", ignore, nil, layers{capped(500 * time.Millisecond), budget(time.Second)}, 500, 400, failure.SourceCaller},
		{"no header", total + `"deadline":{"reserve":"100ms"}`, nil, layers{budget(500 * time.Millisecond)}, 400, none, failure.SourceBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
				e.budget = c.own
				ctx := t.Context()
				for _, l := range c.layers {
					ctx = l(ctx)
				}
				call := mustBegin(t, ctx, e, c.rules)
				left := call.Left(call.Start()).Milliseconds()
				if call.End().IsZero() {
					left = none
				}
				ms, ok := call.Stamp(call.Start())
				if !ok {
					ms = none
				}
				if left != c.left || ms != c.told {
					t.Errorf("%dms left and %dms told, want %d and %d", left, ms, c.left, c.told)
				}
				if a, over := call.Expired(call.Start().Add(time.Hour)); over && a.Source != c.source || over != (c.left != none) {
					t.Errorf("limit of the %s (%t), want %s", a.Source, over, c.source)
				}
			})
		})
	}
}

// Attaching a policy in mode Shadow changes nothing: budgets and caps, which hold
// where no policy names the host, go on holding, without its reserve.
func TestShadowLeavesTheProgramsOwnLimitsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		p := &Policy{Shadow: true, Total: time.Millisecond, IgnoreBudget: true, DeadlineHeader: "X-D", DeadlineReserve: time.Second, MaxAttempts: 1}
		call := &Call{}
		if err := call.Begin(deadline.With(t.Context(), 2*time.Second), e, p, "test", "GET"); err != nil {
			t.Fatal(err)
		}
		a, _ := call.Expired(call.Start().Add(2 * time.Second))
		if _, told := call.Stamp(call.Start()); told || call.Left(call.Start()) != 2*time.Second || a.Source != failure.SourceBudget || call.DeadlineHeader() != "" {
			t.Errorf("%s left by the %s, told %t", call.Left(call.Start()), a.Source, told)
		}
	})
}

// However far in the past a budget ended, it is spent and not wrapped around.
func TestABudgetOfAnotherAgeIsSpent(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		time.Sleep(time.Hour) // the engine is older than the calls
		for name, ctx := range map[string]context.Context{
			"longest past":   deadline.With(t.Context(), math.MinInt64),
			"the first year": deadline.Until(t.Context(), time.Time{}.Add(1)),
			"source":         deadline.WithSource(t.Context(), window(math.MinInt64)),
		} {
			err := new(Call).Begin(ctx, e, &Policy{MaxAttempts: 1, DeadlineHeader: "X-D", DeadlineReserve: 99999 * time.Hour}, "test", "GET")
			if f, ok := err.(*failure.Error); !ok || f.Kind != failure.TotalTimeout || f.Source != failure.SourceBudget {
				t.Errorf("%s: %v", name, err)
			}
		}
		call := new(Call)
		if err := call.Begin(deadline.With(t.Context(), math.MaxInt64), e, &Policy{MaxAttempts: 1}, "test", "GET"); err != nil {
			t.Errorf("the longest budget: %v", err)
		}
	})
}

// A call that may take longer than any clock can tell has no deadline in the past.
func TestTheLongestCapEndsInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		time.Sleep(time.Hour)
		ctx := WithCallOptions(t.Context(), CallOptions{Cap: math.MaxInt64 - 1})
		c := mustBegin(t, ctx, e, `"retry":{"maxAttempts":2}`)
		s := opened(ctx, c)
		if end, ok := s.Deadline(); !ok || end.Before(time.Now()) || c.End().Before(time.Now()) {
			t.Errorf("%s, %t, %s", end, ok, c.End())
		}
		s.Finish()
	})
}

// longAgo is a context whose deadline passed unnoticed.
type longAgo struct{ context.Context }

func (longAgo) Deadline() (time.Time, bool) { return time.Time{}.Add(1), true }

func TestADeadlineOfAnotherAgeHasPassed(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		time.Sleep(time.Hour)
		err := new(Call).Begin(longAgo{t.Context()}, e, &Policy{MaxAttempts: 1}, "test", "GET")
		if f, ok := err.(*failure.Error); !ok || f.Kind != failure.TotalTimeout || f.Source != failure.SourceCaller {
			t.Error(err)
		}
	})
}

func TestTheHeaderIsWrittenInTheNotationOfItsName(t *testing.T) {
	for name, want := range map[string]string{
		"X-Left": "1500", "grpc-timeout": "1500m", "x-envoy-expected-rq-timeout-ms": "1500",
	} {
		inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
			call := mustBegin(t, t.Context(), e, `"timeouts":{"total":"1500ms"},"deadline":{"header":"`+name+`"}`)
			if text, ok := call.StampText(call.Start()); !ok || text != want {
				t.Errorf("%s: %q, want %q", name, text, want)
			}
		})
	}
}

// What was enough to begin an attempt is what the peer is told, also when the
// clock goes on in between.
func TestAnAttemptBeginsWhenItWasFoundToFit(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		call := mustBegin(t, t.Context(), e, `"timeouts":{"total":"10ms"},"deadline":{"header":"X-D"},"retry":{"maxAttempts":3}`)
		call.BeginAttempt()
		<-time.After(9 * time.Millisecond)
		if _, lapsed := call.Lapsed(call.Now()); lapsed {
			t.Fatal("a millisecond can be told")
		}
		<-time.After(500 * time.Microsecond)
		_, began := call.BeginAttempt()
		if ms, _ := call.Stamp(began); ms != 1 {
			t.Errorf("told %dms", ms)
		}
		if ms, _ := call.Stamp(call.Now()); ms != 0 {
			t.Errorf("told %dms of half a millisecond", ms)
		}
	})
}

// A budget that ends when no clock can tell any more, less a reserve.
func TestABudgetWithoutEndCutsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{})
		time.Sleep(time.Minute)
		ctx := deadline.With(context.Background(), math.MaxInt64)
		c := mustBegin(t, ctx, e, `"deadline":{"reserve":"50ms"},"retry":{"maxAttempts":2}`)
		s := opened(ctx, c)
		select {
		case <-s.Done():
			t.Errorf("cut after %s", time.Since(c.Start()))
		case <-time.After(time.Hour):
		}
		s.Finish()
	})
}

// Begin spares the usual call the question whether enough is left of it. What it
// answers must not depend on that.
func TestACallBeginsExactlyWhereEnoughIsLeftOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		lengths := []time.Duration{0, 1, time.Millisecond, time.Millisecond + 1, 10 * time.Millisecond, time.Second}
		any := func() time.Duration { return lengths[rand.IntN(len(lengths))] }
		refused := 0
		for range 20_000 {
			p := Policy{MaxAttempts: 1, Total: any(), DeadlineReserve: any(), Shadow: rand.IntN(8) == 0, IgnoreBudget: rand.IntN(4) == 0}
			if rand.IntN(2) == 0 {
				p.DeadlineHeader = "X-Deadline-Ms"
			}
			ctx, end := t.Context(), context.CancelFunc(func() {})
			e.budget = nil
			if rand.IntN(3) == 0 {
				ctx = deadline.With(ctx, any())
			}
			if rand.IntN(3) == 0 {
				e.budget = window(any())
			}
			if rand.IntN(3) == 0 {
				ctx = WithCallOptions(ctx, CallOptions{Cap: any()})
			}
			if rand.IntN(4) == 0 {
				ctx, end = context.WithTimeout(ctx, time.Millisecond+any())
			}
			c := Call{tells: rand.IntN(3) == 0}
			err := c.Begin(ctx, e, &p, "test", "GET")
			if _, lapsed := c.lapsed(0); lapsed != (err != nil) {
				t.Fatalf("lapsed %v, but began with %v: %+v, end %v, whole %v, caller %v, tells %v", lapsed, err, p, c.end, c.whole, c.caller, c.tells)
			}
			if err != nil {
				refused++
			}
			end()
		}
		if refused < 1000 || refused > 19_000 {
			t.Errorf("%d of 20,000 were refused: that proves little", refused)
		}
	})
}
