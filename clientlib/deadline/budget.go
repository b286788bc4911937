// Package deadline carries the time that is left for the request being served
// to the calls that serving it makes.
//
// A budget is ambient: it travels in a context.Context and shortens every call
// that is made with it. It does not cancel the context itself; the engine of a
// client enforces it call by call and says in its error that the limit was the
// budget's.
package deadline

import (
	"context"
	"time"
)

type budgetKey struct{}

// budget is what a context carries; a zero end means that a Detach took the
// budget away.
type budget struct{ end time.Time }

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
	if outer, ok := From(ctx); ok && !end.Before(outer) {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, budget{end: end})
}

// From returns when the ambient budget ends; false when there is none.
func From(ctx context.Context) (end time.Time, ok bool) {
	b, ok := ctx.Value(budgetKey{}).(budget)
	return b.end, ok && !b.end.IsZero()
}

// Remaining returns what is left of the ambient budget, zero when it is spent;
// false when there is none.
func Remaining(ctx context.Context) (left time.Duration, ok bool) {
	end, ok := From(ctx)
	if !ok {
		return 0, false
	}
	return max(0, time.Until(end)), true
}

// Detach returns a context for work that outlives the request: it has the
// values of ctx, but neither its budget nor its cancellation and deadline.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), budgetKey{}, budget{})
}
