package engine

import (
	"context"
	"errors"
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

// CauseOf returns what a library itself had to say of an attempt that a Scope
// ended, nil when that was nothing but the cancellation. What it has to say more,
// such as which address it was dialling, stays, but is no context.Canceled:
// nobody but the caller cancels a call.
func CauseOf(err error) error {
	if _, own := err.(*limitError); own || err == context.Canceled {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return &echoError{err}
	}
	return err
}

// echoError is an error of a library that was told to stop.
type echoError struct{ err error }

func (e *echoError) Error() string      { return e.err.Error() }
func (e *echoError) As(target any) bool { return errors.As(e.err, target) }
func (e *echoError) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
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
	policy     *Policy // of the hop that the attempt belongs to
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
	// asleep says that the timer does not look after the idle gap since nobody
	// reads: the next Read wakes it.
	asleep atomic.Bool
}

// Open starts the limits of an attempt that begins at now. A policy without any
// limit and without retries costs nothing: the scope is then the parent.
func (s *Scope) Open(parent context.Context, c *Call, now time.Time) {
	p := c.Policy
	s.call, s.policy, s.Context, s.deadline = c, p, parent, c.End()
	// A call in mode Shadow has no end; a hop in mode Shadow has that of its call.
	s.totalEnd = c.before(c.end)
	if p.Attempt > 0 && !p.Shadow {
		s.attemptEnd = now.Add(p.Attempt)
	}
	end, ok := s.next()
	if !ok && (p.Shadow || p.BodyIdle == 0 && !p.needsTracing && p.MaxAttempts <= 1) {
		return
	}
	s.Context, s.cancel = context.WithCancelCause(parent)
	if ok {
		s.timer = c.engine.arm(s, end.Sub(now))
	}
}

// Rules returns the policy that the attempt was made under; the call may have gone
// on to a hop with another one.
func (s *Scope) Rules() *Policy { return s.policy }

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
	p := s.policy
	a := Attribution{Field: limits[l].field}
	switch l {
	case LimitTotal:
		end := s.totalEnd
		if !s.bodyEnd.IsZero() {
			end = s.bodyEnd
		}
		return s.call.attributeEnd(end)
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
	s.bodyEnd = s.endOfBody(stream)
	if !s.policy.Shadow {
		s.idle = s.policy.BodyIdle
	}
	if !s.phase.CompareAndSwap(phaseHeaders, phaseBody) {
		s.bodyEnd = time.Time{}
		return false
	}
	if s.idle == 0 && s.timer != nil && !s.bodyEnd.IsZero() && s.bodyEnd.Equal(s.totalEnd) {
		return true
	}
	if s.timer != nil {
		s.timer.release()
		s.timer = nil
	}
	// The idle gap may be shorter than what the timer waited for.
	if wait := s.untilNext(s.call.Now()); wait > 0 {
		s.timer = s.call.engine.arm(s, wait)
	}
	return true
}

// endOfBody returns when the body has to be there: at the end of the total where
// that goes on after the headers, by the rules of the hop that brought them, else
// at the end of the ambient budget, streams excepted; zero for never.
func (s *Scope) endOfBody(stream bool) time.Time {
	switch scope := s.policy.Scope; {
	case scope == document.ScopeBody, scope == "" && !stream:
		return s.totalEnd
	case stream:
		return time.Time{}
	default:
		return s.call.before(s.call.budget)
	}
}

// Over reports whether the time of the attempt is up at a time, and whose limit
// it was: until the headers that of the call, from then on that of the body.
func (s *Scope) Over(now time.Time) (Attribution, bool) {
	c := s.call
	if s.phase.Load() == phaseHeaders {
		return c.Expired(now)
	}
	for _, end := range [...]time.Time{s.bodyEnd, c.caller} {
		if !end.IsZero() && !now.Before(end) {
			return c.attributeEnd(end), true
		}
	}
	return Attribution{}, false
}

// BeginRead and EndRead bracket a Read of the body, so that the idle gap counts
// the time in which the peer is silent and not the time in which the caller
// does something else.
func (s *Scope) BeginRead() {
	if s.idle <= 0 {
		return
	}
	now := s.call.Now()
	s.reading.Store(int64(now.Sub(s.call.start)) + 1)
	if s.asleep.CompareAndSwap(true, false) {
		s.timer.again(s.untilNext(now))
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
	silent, reading := s.silence(now)
	switch {
	case s.idle == 0:
		t.again(s.untilNext(now))
	case !reading:
		s.sleep(t, now)
	case silent >= s.idle:
		s.fireFrom(phaseBody, LimitBodyIdle)
	default:
		t.again(s.untilNext(now))
	}
}

// sleep leaves the idle gap to the next Read, so that a body that nobody reads
// costs nothing. The timer goes on for the total alone.
func (s *Scope) sleep(t *scopeTimer, now time.Time) {
	if !s.bodyEnd.IsZero() {
		t.again(max(1, s.bodyEnd.Sub(now)))
	}
	s.asleep.Store(true)
	if s.reading.Load() != 0 && s.asleep.CompareAndSwap(true, false) {
		// A Read began meanwhile and did not see that it had to wake the timer.
		t.again(s.untilNext(now))
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
