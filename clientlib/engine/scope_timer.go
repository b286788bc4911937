package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// scopeTimer is a timer that can serve another scope when it was stopped in
// time. What every call writes comes first, in one line of the processor's cache.
type scopeTimer struct {
	scope *Scope // changes while the alarm is stopped
	// taken says that a scope has it, or may get it from a pool.
	taken atomic.Bool
	// rearmed says that the callback armed the timer itself: from then on it is
	// never kept for another scope, since the callback may still stop it.
	rearmed atomic.Bool
	// lost says that it was released while it did not run, or might be armed again:
	// whoever arms it now stops it, and it is never kept either.
	lost  atomic.Bool
	alarm clock.Alarm
	_     [32]byte // to be 128 bytes, and so at the beginning of a line
}

// timers are those that no scope uses. One is within everybody's reach, the others
// within that of a processor: a program that makes one call after the other has then
// one of the runtime's timers, and only one processor to look after it.
type timers struct {
	// spare is also there while a call has it, until the timer runs out: the call may
	// have been forgotten. nil for none.
	spare  atomic.Pointer[scopeTimer]
	others sync.Pool // all of them taken
}

func (s *timers) put(t *scopeTimer) {
	t.scope = nil
	if spare := s.spare.Load(); spare == t || spare == nil && s.spare.CompareAndSwap(nil, t) {
		t.taken.Store(false)
		return
	}
	s.others.Put(t)
}

// lose forgets a timer that is never put back: it ran out, or was released at the moment
// at which it was started.
func (s *timers) lose(t *scopeTimer) { s.spare.CompareAndSwap(t, nil) }

// timer returns one that the caller has for himself.
func (e *Engine) timer() *scopeTimer {
	if t := e.timers.spare.Load(); t != nil && t.take() {
		return t
	}
	if t, ok := e.timers.others.Get().(*scopeTimer); ok {
		return t
	}
	t := new(scopeTimer)
	t.taken.Store(true)
	t.alarm.Init(&e.timeline, t.fire)
	return t
}

func (t *scopeTimer) take() bool { return !t.taken.Load() && t.taken.CompareAndSwap(false, true) }

func (t *scopeTimer) fire() {
	t.scope.call.engine.timers.lose(t)
	t.scope.expire(t)
}

// start starts the timer that the scope has, or had a moment ago.
func (t *scopeTimer) start(s *Scope, now, wait time.Duration) {
	t.alarm.Start(s.call.start+now, wait)
	if t.lost.Load() {
		t.alarm.Stop()
	}
}

// again is start from the timer's own callback, or from the Read that wakes it.
func (t *scopeTimer) again(s *Scope, now, wait time.Duration) {
	if wait > 0 {
		t.rearmed.Store(true)
		t.start(s, now, wait)
	}
}

// release stops the timer; it must be called once at most for each that was
// started. Only a timer that was stopped before it fired is kept for another scope:
// a callback under way still belongs to the old one.
func (t *scopeTimer) release(e *Engine) {
	if t.alarm.Stop() && !t.rearmed.Load() {
		e.timers.put(t)
		return
	}
	t.lost.Store(true)
	t.alarm.Stop()
	e.timers.lose(t)
}

// arm starts a timer, unless there is one.
func (s *Scope) arm(now, wait time.Duration) {
	e := s.call.engine
	t := e.timer()
	t.scope = s
	if !s.timer.CompareAndSwap(nil, t) {
		e.timers.put(t)
		return
	}
	t.start(s, now, wait)
}

// disarm lets go of the timer, if there is one.
func (s *Scope) disarm() {
	if s.timer.Load() == nil {
		return
	}
	if t := s.timer.Swap(nil); t != nil {
		t.release(s.call.engine)
	}
}

// await starts the timer for somebody who begins to wait now.
func (s *Scope) await() {
	if s.timer.Load() != nil {
		return
	}
	now, _ := s.Look()
	switch s.phase.Load() {
	case phaseHeaders:
		if end := min(s.totalEnd(), s.attemptEnd); end != never {
			s.arm(now, max(1, end-now))
		}
	case phaseBody:
		if wait := s.untilNext(now); wait > 0 {
			s.arm(now, wait)
		}
	}
}
