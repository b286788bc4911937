package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Options of an engine. The zero value is right outside of tests.
type Options struct {
	// Clock for limits and waits; nil means the system's.
	Clock clock.Clock
	// Random returns a uniform number in [0, 1) for jitter, concurrently; nil
	// means math/rand/v2.
	Random func() float64
	// Observers are told about calls.
	Observers []Observer
	// Tracer makes traces of calls; nil for none.
	Tracer Tracer
	// Budget limits every call beside the ambient one; nil for none. It is asked
	// once when a call begins.
	Budget deadline.Source
}

// Engine holds the policy in force for the calls of one client. It is safe for
// concurrent use. It starts no goroutine and needs no Close.
type Engine struct {
	// What every call looks at comes first.
	current  atomic.Pointer[Snapshot]
	timeline clock.Timeline
	tracer   Tracer
	budget   deadline.Source
	timers   timers

	clock     clock.Clock
	random    func() float64
	observers []Observer
	swap      sync.Mutex
}

// New returns an engine without a policy: it lets every call pass.
func New(o Options) *Engine {
	e := &Engine{clock: o.Clock, random: o.Random, observers: o.Observers, tracer: o.Tracer, budget: o.Budget}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.random == nil {
		e.random = rand.Float64
	}
	e.timeline = clock.NewTimeline(e.clock)
	e.current.Store(build(nil, nil, nil))
	return e
}

// Swap puts a document in force for the calls that begin from now on; nil takes
// the policy away. Calls in flight keep theirs. The document must have passed
// its validation, as every document of document.Parse has.
func (e *Engine) Swap(doc *document.Document) *Snapshot {
	e.swap.Lock()
	defer e.swap.Unlock()
	next := build(doc, e.current.Load(), e.observers)
	e.current.Store(next)
	for _, o := range e.observers {
		if s, ok := o.(SwapObserver); ok {
			s.Swapped(next)
		}
	}
	return next
}

// Snapshot returns the policy in force; never nil.
func (e *Engine) Snapshot() *Snapshot { return e.current.Load() }

// Tracer returns who makes traces of calls; nil for nobody.
func (e *Engine) Tracer() Tracer { return e.tracer }

// Clock returns the clock that the engine measures with.
func (e *Engine) Clock() clock.Clock { return e.clock }

// Limited reports whether a call made with ctx is limited where no policy names
// its host either: by the ambient budget, the client's own, or the call site.
// Adapters make such a call under a policy that says nothing.
func (e *Engine) Limited(ctx context.Context) bool {
	return e.budget != nil || deadline.Has(ctx) || CallOptionsFrom(ctx).Cap > 0
}

// budgetLeft returns what is left of the budget of a call that begins, the ambient one
// and the client's own; false for none. What the request being served has left can be
// left out, the client's own cannot.
func (e *Engine) budgetLeft(ctx context.Context, ambient bool) (left time.Duration, ok bool) {
	now := e.clock.Now()
	var end time.Time
	if ambient {
		end, ok = deadline.EndAt(ctx, now)
	}
	if e.budget != nil {
		if own, limited := deadline.SourceEnd(e.budget, now); limited && (!ok || own.Before(end)) {
			end, ok = own, true
		}
	}
	return max(0, end.Sub(now)), ok
}
