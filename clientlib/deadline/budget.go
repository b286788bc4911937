package deadline

import (
	"context"
	"math"
	"time"
)

type budgetKey struct{}

// budget is what a context carries: an end or a source to ask, and the sources
// outside of it. It is immutable. A nil budget is what Detach leaves.
type budget struct {
	end    time.Time
	source Source
	outer  *budget
}

// With returns a context whose calls have at most d from now. Inside a budget
// that ends sooner, the sooner end stays. A d of zero or less is a budget that
// is already spent.
func With(ctx context.Context, d time.Duration) context.Context {
	return Until(ctx, time.Now().Add(d)) //nolint:forbidigo // the entry point where wall time becomes a deadline
}

// Until is With for a point in time. A zero end leaves the context as it is.
func Until(ctx context.Context, end time.Time) context.Context {
	if end.IsZero() {
		return ctx
	}
	outer := ambient(ctx)
	if outer != nil && outer.source == nil {
		if !end.Before(outer.end) {
			return ctx
		}
		outer = outer.outer // the sooner end is all that counts
	}
	return context.WithValue(ctx, budgetKey{}, &budget{end: end, outer: outer})
}

// WithSource returns a context whose calls have at most what the source says
// when each of them begins. Inside and outside of other budgets the tightest
// holds. A nil source leaves the context as it is.
func WithSource(ctx context.Context, s Source) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, &budget{source: s, outer: ambient(ctx)})
}

// Detach returns a context for work that outlives the request: it has the
// values of ctx, but neither its budgets nor its cancellation and deadline.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), budgetKey{}, (*budget)(nil))
}

// Has reports whether there is an ambient budget.
func Has(ctx context.Context) bool { return ambient(ctx) != nil }

// From returns when the ambient budget ends; false when there is none.
func From(ctx context.Context) (end time.Time, ok bool) {
	b := ambient(ctx)
	if b == nil {
		return time.Time{}, false
	}
	return b.endAt(time.Now()) //nolint:forbidigo // where what a source has left becomes a point in time
}

// Remaining returns what is left of the ambient budget, zero when it is spent;
// false when there is none.
func Remaining(ctx context.Context) (left time.Duration, ok bool) {
	b := ambient(ctx)
	if b == nil {
		return 0, false
	}
	now := time.Now() //nolint:forbidigo // as in From
	end, ok := b.endAt(now)
	return max(0, end.Sub(now)), ok
}

// EndAt is From for those who have looked at the clock already: what sources
// have left counts from now.
func EndAt(ctx context.Context, now time.Time) (end time.Time, ok bool) {
	return ambient(ctx).endAt(now)
}

func ambient(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// endAt returns the soonest end of a budget and those outside of it.
func (b *budget) endAt(now time.Time) (end time.Time, ok bool) {
	for ; b != nil; b = b.outer {
		at, limited := b.end, true
		if b.source != nil {
			at, limited = SourceEnd(b.source, now)
		}
		if limited && (!ok || at.Before(end)) {
			end, ok = at, true
		}
	}
	return end, ok
}

// Source is a budget of your own making: the lease of a job, the visibility
// timeout of a message, the rest of a transaction. It is asked once whenever a
// call begins, from the goroutine that makes the call, and possibly from many at
// once. It must not block.
type Source interface {
	// Remaining is what is left, zero or less for nothing; [Unlimited] where
	// nothing limits it.
	Remaining() time.Duration
	// Expired reports whether the budget is over, whatever Remaining says.
	Expired() bool
}

// Unlimited is what a Source without a limit has left.
const Unlimited = time.Duration(math.MaxInt64)

// SourceEnd returns when a source ends that is asked at now; false where it has
// no limit.
func SourceEnd(s Source, now time.Time) (end time.Time, ok bool) {
	if s.Expired() {
		return now, true
	}
	left := s.Remaining()
	if left == Unlimited {
		return time.Time{}, false
	}
	return now.Add(max(0, left)), true
}

// Fixed is a Source that ends at a point in time, such as the end of the window
// that a batch job has. The zero value has no limit.
type Fixed struct{ End time.Time }

// Remaining implements [Source].
func (f Fixed) Remaining() time.Duration {
	if f.End.IsZero() {
		return Unlimited
	}
	return time.Until(f.End)
}

// Expired implements [Source].
func (f Fixed) Expired() bool { return !f.End.IsZero() && f.Remaining() <= 0 }
