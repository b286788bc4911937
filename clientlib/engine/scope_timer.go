package engine

import (
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// scopeTimer is a timer that can serve another scope when it was stopped in
// time.
type scopeTimer struct {
	engine *Engine
	timer  clock.Timer
	scope  atomic.Pointer[Scope]
	// rearmed says that the callback armed the timer itself: from then on it is
	// never kept for another scope, since the callback may still stop it.
	rearmed atomic.Bool
}

func (e *Engine) arm(s *Scope, wait time.Duration) *scopeTimer {
	t, ok := e.timers.Get().(*scopeTimer)
	if !ok {
		t = &scopeTimer{engine: e}
		// Started far off, so that the callback cannot run before the field is
		// set.
		t.timer = e.clock.AfterFunc(time.Hour, t.fire)
	}
	t.scope.Store(s)
	t.timer.Reset(wait)
	return t
}

func (t *scopeTimer) fire() {
	if s := t.scope.Load(); s != nil {
		s.expire(t)
	}
}

// again arms the timer while its scope uses it, from its own callback or from
// the Read that wakes it. A release meanwhile did not find it running, so it is
// looked for once more.
func (t *scopeTimer) again(wait time.Duration) {
	if wait <= 0 {
		return
	}
	t.rearmed.Store(true)
	t.timer.Reset(wait)
	if t.scope.Load() == nil {
		t.timer.Stop()
	}
}

// release stops the timer; it must be called once at most for each arm. Only a
// timer that was stopped before it fired is kept for another scope: a callback
// under way still belongs to the old one.
func (t *scopeTimer) release() {
	t.scope.Store(nil)
	stopped := t.timer.Stop()
	if stopped && !t.rearmed.Load() {
		t.engine.timers.Put(t)
	}
}

// arm starts a timer, unless there is one.
func (s *Scope) arm(wait time.Duration) {
	if t := s.call.engine.arm(s, wait); !s.timer.CompareAndSwap(nil, t) {
		t.release()
	}
}

// disarm lets go of the timer, if there is one.
func (s *Scope) disarm() {
	if s.timer.Load() == nil {
		return
	}
	if t := s.timer.Swap(nil); t != nil {
		t.release()
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
		if end := min(s.totalEnd, s.attemptEnd); end != never {
			s.arm(max(1, end-now))
		}
	case phaseBody:
		if wait := s.untilNext(now); wait > 0 {
			s.arm(wait)
		}
	}
}
