package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
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
}

// Engine holds the policy in force for the calls of one client. It is safe for
// concurrent use. It starts no goroutine and needs no Close.
type Engine struct {
	clock     clock.Clock
	random    func() float64
	observers []Observer
	tracer    Tracer
	timers    sync.Pool

	current atomic.Pointer[Snapshot]
	swap    sync.Mutex
}

// New returns an engine without a policy: it lets every call pass.
func New(o Options) *Engine {
	e := &Engine{clock: o.Clock, random: o.Random, observers: o.Observers, tracer: o.Tracer}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.random == nil {
		e.random = rand.Float64
	}
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
