package deadline_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// lease is a Source whose owner changes it.
type lease struct {
	left    time.Duration
	expired bool
	asked   int
}

func (l *lease) Remaining() time.Duration { l.asked++; return l.left }
func (l *lease) Expired() bool            { return l.expired }

func TestTheTighterBudgetWinsInsideAndTheOuterIsThereAgainOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type layer = func(context.Context) context.Context
		with := func(d time.Duration) layer {
			return func(ctx context.Context) context.Context { return deadline.With(ctx, d) }
		}
		source := func(s deadline.Source) layer {
			return func(ctx context.Context) context.Context { return deadline.WithSource(ctx, s) }
		}
		const none = -1
		for _, c := range []struct {
			name   string
			layers []layer
			want   time.Duration
		}{
			{"none", nil, none},
			{"one", []layer{with(time.Second)}, time.Second},
			{"tighter inside", []layer{with(time.Second), with(100 * time.Millisecond)}, 100 * time.Millisecond},
			{"looser inside", []layer{with(time.Second), with(time.Hour)}, time.Second},
			{"spent", []layer{with(time.Second), with(0)}, 0},
			{"negative", []layer{with(-time.Hour)}, 0},
			{"a zero point in time is none", []layer{func(ctx context.Context) context.Context { return deadline.Until(ctx, time.Time{}) }}, none},
			{"source", []layer{source(&lease{left: time.Second})}, time.Second},
			{"source outside of a looser budget", []layer{source(&lease{left: time.Second}), with(2 * time.Second)}, time.Second},
			{"source outside of a tighter budget", []layer{source(&lease{left: time.Second}), with(time.Millisecond)}, time.Millisecond},
			{"source between two budgets", []layer{with(3 * time.Second), source(&lease{left: time.Second}), with(2 * time.Second)}, time.Second},
			{"budgets on both sides of a looser source", []layer{with(2 * time.Second), source(&lease{left: time.Hour}), with(3 * time.Second)}, 2 * time.Second},
			{"two sources", []layer{source(&lease{left: 2 * time.Second}), source(&lease{left: time.Second})}, time.Second},
			{"expired source", []layer{with(time.Second), source(&lease{left: time.Hour, expired: true})}, 0},
			{"negative source", []layer{source(&lease{left: -time.Hour})}, 0},
			{"unlimited source", []layer{source(&lease{left: deadline.Unlimited})}, none},
			{"unlimited source inside a budget", []layer{with(time.Second), source(&lease{left: deadline.Unlimited})}, time.Second},
			{"no source", []layer{source(nil)}, none},
			{"fixed end", []layer{source(deadline.Fixed{End: time.Now().Add(time.Second)})}, time.Second},
			{"fixed end that has passed", []layer{source(deadline.Fixed{End: time.Now().Add(-time.Second)})}, 0},
			{"fixed end of nothing", []layer{source(deadline.Fixed{})}, none},
			{"detached", []layer{with(time.Second), source(&lease{}), deadline.Detach}, none},
			{"inside of a detached block", []layer{with(time.Second), deadline.Detach, with(time.Minute)}, time.Minute},
		} {
			contexts := []context.Context{t.Context()}
			var before []time.Duration
			for _, l := range c.layers {
				before = append(before, left(contexts[len(contexts)-1]))
				contexts = append(contexts, l(contexts[len(contexts)-1]))
			}
			if got := left(contexts[len(contexts)-1]); got != c.want {
				t.Errorf("%s: %s left, want %s", c.name, got, c.want)
			}
			for i, was := range before {
				if got := left(contexts[i]); got != was {
					t.Errorf("%s: outside %s are left, want %s as before", c.name, got, was)
				}
			}
		}
	})
}

// left is what is left, -1 for no budget; Remaining and From have to agree.
func left(ctx context.Context) time.Duration {
	left, ok := deadline.Remaining(ctx)
	end, same := deadline.From(ctx)
	switch {
	case ok != same:
		return -2
	case !ok:
		return -1
	case max(0, time.Until(end)) != left:
		return -3
	}
	return left
}

func TestABudgetRunsDownAndStaysSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := deadline.With(t.Context(), time.Second)
		for _, want := range []time.Duration{600 * time.Millisecond, 200 * time.Millisecond, 0, 0} {
			<-time.After(400 * time.Millisecond)
			if got := left(ctx); got != want {
				t.Errorf("%s left, want %s", got, want)
			}
		}
		if ctx.Err() != nil {
			t.Error("a budget ended its context: it is for calls only")
		}
	})
}

func TestDetachedWorkKeepsTheValuesAndNothingElse(t *testing.T) {
	type key struct{}
	request, end := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Hour)
	request = deadline.With(request, time.Minute)
	work := deadline.Detach(request)
	end()
	if _, limited := work.Deadline(); limited || work.Err() != nil || deadline.Has(work) || work.Value(key{}) != "trace" {
		t.Errorf("deadline %t, error %v, budget %t, value %v", limited, work.Err(), deadline.Has(work), work.Value(key{}))
	}
	if !deadline.Has(request) {
		t.Error("the request lost its budget")
	}
}

// Siblings share what is outside of them and see nothing of each other.
func TestFanOutSharesTheBudgetAndSiblingsSeeNothingOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := deadline.With(t.Context(), time.Second)
		var siblings sync.WaitGroup
		for i := range 16 {
			siblings.Go(func() {
				<-time.After(100 * time.Millisecond)
				if got := left(request); got != 900*time.Millisecond {
					t.Errorf("sibling %d has %s of what it shares", i, got)
				}
				own := deadline.With(request, time.Duration(i)*time.Millisecond)
				if got := left(own); got != time.Duration(i)*time.Millisecond {
					t.Errorf("sibling %d has %s of its own", i, got)
				}
			})
		}
		siblings.Wait()
		if left(t.Context()) != -1 {
			t.Error("somebody unrelated has a budget")
		}
	})
}

// A loop that narrows its budget again and again asks each source once.
func TestNestedBudgetsDoNotPileUp(t *testing.T) {
	s := &lease{left: time.Hour}
	ctx := deadline.WithSource(t.Context(), s)
	now := time.Now()
	for i := range 1000 {
		ctx = deadline.Until(ctx, now.Add(time.Minute-time.Duration(i)*time.Millisecond))
	}
	if _, ok := deadline.EndAt(ctx, now); !ok || s.asked != 1 {
		t.Errorf("the source was asked %d times", s.asked)
	}
	if n := testing.AllocsPerRun(100, func() { deadline.EndAt(ctx, now) }); n != 0 {
		t.Errorf("%v allocations to look at a budget", n)
	}
}
