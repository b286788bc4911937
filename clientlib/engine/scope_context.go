package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ownContext is what makes a Scope a context that its limits end. It is made
// when somebody asks for what it alone can tell, a channel above all: an attempt
// whose library never waits for its context pays for none.
type ownContext struct {
	// Of the standard library:
	made   atomic.Bool
	root   atomic.Uint32
	mu     sync.Mutex // guards the making
	ctx    context.Context
	cancel context.CancelCauseFunc
	// Of a root, see AfterFunc:
	done  chan struct{} // nil for what is no root
	after func()
}

// end ends the context if there is one. The phase of the scope has to say so
// beforehand, for one that is being made at this moment.
func (o *ownContext) end(cause error) {
	if o.made.Load() {
		o.cancel(cause)
	}
	if o.isRoot() {
		o.endRoot()
	}
}

// context returns the scope's own context of the standard library, which is made
// now if it was not.
func (s *Scope) context() context.Context {
	o := &s.own
	if o.made.Load() {
		if s.over() { // whoever ended it may not have come to say why
			o.cancel(limitErrors[s.fired()])
		}
		return o.ctx
	}
	s.await() // without the lock, for what ends at this moment
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.made.Load() {
		parent := s.Context
		if s.fired() != LimitNone {
			// The limit was first, whatever became of the parent since.
			parent = context.WithoutCancel(parent)
		}
		o.ctx, o.cancel = context.WithCancelCause(parent)
		o.made.Store(true)
	}
	if s.over() {
		s.disarm()
		o.cancel(limitErrors[s.fired()])
	}
	return o.ctx
}

// over reports whether a limit or Finish ended the scope.
func (s *Scope) over() bool { return s.phase.Load() >= phaseDone }

// Deadline returns when the call ends; it does not change during the life of
// the scope. The attempt's ceiling is not part of it, since a response that
// came in time may take longer.
func (s *Scope) Deadline() (time.Time, bool) {
	if c := s.call; c.end < c.caller {
		return c.at(c.end), true
	}
	return s.Context.Deadline()
}

// Done is closed when a limit, the end of the attempt or the parent ends it.
func (s *Scope) Done() <-chan struct{} {
	switch {
	case !s.limited:
		return s.Context.Done()
	case s.own.isRoot():
		return s.own.done
	default:
		return s.context().Done()
	}
}

// Err says what Done is closed for; [context.Cause] names the limit.
func (s *Scope) Err() error {
	if !s.limited {
		return s.Context.Err()
	}
	made, over := s.own.made.Load(), s.over()
	if !made && !over {
		s.Look()
		over = s.over()
	}
	switch {
	case over && s.own.isRoot():
		return context.Canceled
	case made || over:
		return s.context().Err()
	default:
		return s.Context.Err()
	}
}

// Value returns what the parent has.
func (s *Scope) Value(key any) any {
	// The standard library finds by such a key who cancels, and for what. A root
	// whose attempt is over has nothing to say but that.
	if s.limited && (s.own.made.Load() || s.over()) && !(s.own.isRoot() && s.phase.Load() == phaseDone) {
		return s.context().Value(key)
	}
	return s.Context.Value(key)
}
