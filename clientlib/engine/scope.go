package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Limit is a limit of the policy that a Scope enforces.
type Limit uint8

// The limits. LimitNone means that none has fired.
const (
	LimitNone Limit = iota
	LimitTotal
	LimitAttempt
	LimitConnect
	LimitPool
	LimitResponseHeader
	LimitBodyIdle

	limitCount
)

var limits = [limitCount]struct {
	field, label string
	kind         failure.Kind
}{
	LimitTotal:          {"timeouts.total", "total", failure.TotalTimeout},
	LimitAttempt:        {"timeouts.attempt", "attempt", failure.AttemptTimeout},
	LimitConnect:        {"timeouts.connect", "connect", failure.ConnectTimeout},
	LimitPool:           {"timeouts.connect", "connect", failure.PoolTimeout},
	LimitResponseHeader: {"timeouts.responseHeader", "response_header", failure.ReadTimeout},
	LimitBodyIdle:       {"timeouts.bodyIdle", "body_idle", failure.ReadTimeout},
}

// Kind returns the failure kind of a limit that passed.
func (l Limit) Kind() failure.Kind { return limits[l].kind }

// Label returns the metric spelling, such as "response_header".
func (l Limit) Label() string { return limits[l].label }

// limitError is the cause of a context that a Scope ended. It says of itself
// that it is a timeout, for libraries that look at the cause.
type limitError struct{ limit Limit }

func (e *limitError) Error() string     { return limits[e.limit].field + " passed" }
func (e *limitError) Timeout() bool     { return true }
func (e *limitError) Temporary() bool   { return true }
func (e *limitError) Is(err error) bool { return err == context.DeadlineExceeded }

// CauseOf returns an error without the marker that a Scope leaves as the cause
// of its context: what is left is what the library itself had to say, nil when
// that was nothing.
func CauseOf(err error) error {
	if _, own := err.(*limitError); own {
		return nil
	}
	return err
}

var limitErrors = func() (errs [limitCount]error) {
	for l := range limitCount {
		errs[l] = &limitError{limit: l}
	}
	return errs
}()

// The phases of a Scope; phaseFired+Limit means that the limit ended it.
const (
	phaseHeaders uint32 = iota // until the response headers: attempt and total
	phaseBody                  // until the body ends: total and the idle gap
	phaseDone
	phaseFired
)

// Watched reports whether the body phase has a limit of its own.
func (s *Scope) Watched() bool {
	return s.phase.Load() == phaseBody && (s.idle > 0 || !s.bodyEnd.IsZero())
}

// Scope is the context of one attempt and of the body that it brought. One
// timer serves the attempt's ceiling, the total and the idle gap. Which limit
// ended the attempt is a fact of the Scope ([Scope.Fired]), not a guess from an
// error: a limit fires by winning the phase, and cancels afterwards.
//
// A Scope is part of the adapter's per-attempt struct and must not be reused:
// a library may keep the context after the attempt ended.
type Scope struct {
	// Context is the parent's with a cancellation of its own.
	context.Context

	call       *Call
	cancel     context.CancelCauseFunc
	timer      *scopeTimer
	deadline   time.Time
	attemptEnd time.Time
	totalEnd   time.Time
	// bodyEnd and idle are written before the phase becomes phaseBody and read
	// in that phase only.
	bodyEnd  time.Time
	idle     time.Duration
	phase    atomic.Uint32
	finished atomic.Bool
	// reading is the time since the start of the call at which a Read began to
	// wait, plus one, 0 while none does. Only kept where an idle gap is limited.
	reading atomic.Int64
}

// Open starts the limits of an attempt that begins at now. A policy without any
// limit and without retries costs nothing: the scope is then the parent.
func (s *Scope) Open(parent context.Context, c *Call, now time.Time) {
	p := c.Policy
	s.call, s.Context, s.deadline = c, parent, c.End()
	if p.Shadow {
		return
	}
	s.totalEnd = c.end
	if !c.end.IsZero() && !c.caller.IsZero() && c.caller.Before(c.end) {
		// The caller's context does the work.
		s.totalEnd = time.Time{}
	}
	if p.Attempt > 0 {
		s.attemptEnd = now.Add(p.Attempt)
	}
	end, ok := s.next()
	if !ok && p.BodyIdle == 0 && !p.needsTracing && p.MaxAttempts <= 1 {
		return
	}
	s.Context, s.cancel = context.WithCancelCause(parent)
	if ok {
		s.timer = c.engine.arm(s, end.Sub(now))
	}
}

// Deadline returns when the call ends; it does not change during the life of
// the scope. The attempt's ceiling is not part of it, since a response that
// came in time may take longer.
func (s *Scope) Deadline() (time.Time, bool) { return s.deadline, !s.deadline.IsZero() }

// next returns the earliest limit before the headers.
func (s *Scope) next() (time.Time, bool) {
	end := s.totalEnd
	if !s.attemptEnd.IsZero() && (end.IsZero() || s.attemptEnd.Before(end)) {
		end = s.attemptEnd
	}
	return end, !end.IsZero()
}

// Fire ends the attempt for a limit, unless something else ended it before or
// its phase is over. It is safe to call from any goroutine.
func (s *Scope) Fire(l Limit) {
	from := phaseHeaders
	if l == LimitBodyIdle {
		from = phaseBody
	}
	s.fireFrom(from, l)
}

func (s *Scope) fireFrom(phase uint32, l Limit) bool {
	if !s.phase.CompareAndSwap(phase, phaseFired+uint32(l)) {
		return false
	}
	s.cancel(limitErrors[l])
	return true
}

// Fired returns the limit that ended the scope, LimitNone for none.
func (s *Scope) Fired() Limit {
	if phase := s.phase.Load(); phase >= phaseFired {
		return Limit(phase - phaseFired)
	}
	return LimitNone
}

// Attribution says which field and how long a limit of this scope was.
func (s *Scope) Attribution(l Limit) Attribution {
	p := s.call.Policy
	a := Attribution{Field: limits[l].field}
	switch l {
	case LimitTotal:
		return s.call.attributeTotal()
	case LimitAttempt:
		a.Limit = p.Attempt
	case LimitConnect, LimitPool:
		a.Limit = p.Connect
	case LimitResponseHeader:
		a.Limit = p.ResponseHeader
	case LimitBodyIdle:
		a.Limit = p.BodyIdle
	}
	return a
}

// EnterBody ends the attempt's ceiling: the headers are there. stream says that
// the body is a stream, whose total ends here too unless the policy says
// otherwise. It returns false when a limit fired first; the response then must
// be dropped. A timer that still serves the total is left alone: if it finds
// itself early it arms itself anew, so that a quick call pays one swap.
func (s *Scope) EnterBody(stream bool) bool {
	if s.cancel == nil {
		return true
	}
	if s.coversBody(stream) {
		s.bodyEnd = s.totalEnd
	}
	s.idle = s.call.Policy.BodyIdle
	if !s.phase.CompareAndSwap(phaseHeaders, phaseBody) {
		return false
	}
	if s.idle == 0 && !s.bodyEnd.IsZero() {
		return true
	}
	if s.timer != nil {
		s.timer.release()
		s.timer = nil
	}
	// The idle gap may be shorter than what the timer waited for.
	if s.idle > 0 {
		s.timer = s.call.engine.arm(s, s.untilNext(s.call.Now()))
	}
	return true
}

// coversBody says whether the total goes on after the headers. An ambient
// budget always does, streams excepted.
func (s *Scope) coversBody(stream bool) bool {
	switch s.call.Policy.Scope {
	case document.ScopeHeaders:
		return s.call.source == failure.SourceBudget && !stream
	case document.ScopeBody:
		return true
	default:
		return !stream
	}
}

// BeginRead and EndRead bracket a Read of the body, so that the idle gap counts
// the time in which the peer is silent and not the time in which the caller
// does something else.
func (s *Scope) BeginRead() {
	if s.idle > 0 {
		s.reading.Store(int64(s.call.Now().Sub(s.call.start)) + 1)
	}
}

// EndRead ends what BeginRead began.
func (s *Scope) EndRead() {
	if s.idle > 0 {
		s.reading.Store(0)
	}
}

// Finish ends the scope: timer stopped, context cancelled. It may be called
// more than once and from any goroutine; what fired before stays fired.
func (s *Scope) Finish() {
	if s.cancel == nil || s.finished.Swap(true) {
		return
	}
	if !s.phase.CompareAndSwap(phaseHeaders, phaseDone) {
		s.phase.CompareAndSwap(phaseBody, phaseDone)
	}
	if s.timer != nil {
		s.timer.release()
	}
	s.cancel(nil)
}

// expire is what the timer calls.
func (s *Scope) expire(t *scopeTimer) {
	if s.phase.Load() == phaseHeaders {
		l := LimitTotal
		if end, _ := s.next(); end.Equal(s.attemptEnd) && !end.Equal(s.totalEnd) {
			l = LimitAttempt
		}
		if s.fireFrom(phaseHeaders, l) {
			return
		}
		// The headers came, or the attempt ended, at the same moment.
	}
	if s.phase.Load() == phaseBody {
		s.expireBody(t)
	}
}

func (s *Scope) expireBody(t *scopeTimer) {
	now := s.call.Now()
	if !s.bodyEnd.IsZero() && !now.Before(s.bodyEnd) {
		s.fireFrom(phaseBody, LimitTotal)
		return
	}
	if silent, ok := s.silence(now); ok && s.idle > 0 && silent >= s.idle {
		s.fireFrom(phaseBody, LimitBodyIdle)
		return
	}
	if wait := s.untilNext(now); wait > 0 {
		t.again(wait)
	}
}

// silence returns how long a Read has been waiting.
func (s *Scope) silence(now time.Time) (time.Duration, bool) {
	since := s.reading.Load()
	if since == 0 {
		return 0, false
	}
	return now.Sub(s.call.start) - time.Duration(since-1), true
}

// untilNext returns how long the timer has to wait in the body phase; 0 for not
// at all.
func (s *Scope) untilNext(now time.Time) time.Duration {
	var wait time.Duration
	if !s.bodyEnd.IsZero() {
		wait = max(1, s.bodyEnd.Sub(now))
	}
	if s.idle > 0 {
		idle := s.idle
		if silent, ok := s.silence(now); ok {
			idle = max(1, s.idle-silent)
		}
		if wait == 0 || idle < wait {
			wait = idle
		}
	}
	return wait
}

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

// again arms the timer from its own callback. A release meanwhile did not find
// it running, so it is looked for once more.
func (t *scopeTimer) again(wait time.Duration) {
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
	stopped := t.timer.Stop()
	t.scope.Store(nil)
	if stopped && !t.rearmed.Load() {
		t.engine.timers.Put(t)
	}
}
