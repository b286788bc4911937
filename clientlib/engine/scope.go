package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// The phases of a Scope; phaseFired+Limit means that the limit ended it.
const (
	phaseHeaders uint32 = iota // until the response headers: attempt and total
	phaseBody                  // until the body ends: total and the idle gap
	phaseDone
	phaseFired
)

// Scope is the context of one attempt and of the body that it brought. Which limit
// ended the attempt is a fact of the Scope ([Scope.Fired]), not a guess from an
// error: a limit fires by winning the phase, and cancels afterwards.
//
// The clock says whether a limit passed: the Scope looks at it when the headers
// are there, when the body ended and whenever it is asked for its error. A timer is
// there to wake those who wait, one for the attempt's ceiling, the total and the
// idle gap, and is started when somebody does (or has an idle gap to be watched).
//
// A Scope is part of the adapter's per-attempt struct and must not be reused:
// a library may keep the context after the attempt ended.
type Scope struct {
	// Context is the parent. The Scope is one of its own, see Done.
	context.Context

	call   *Call
	policy *Policy                    // of the hop that the attempt belongs to
	timer  atomic.Pointer[scopeTimer] // nil while nobody waits
	own    ownContext
	// The times are since the start of the call, never for none.
	attemptEnd time.Duration
	// bodyEnd is written before the phase becomes phaseBody and read in that phase
	// only.
	bodyEnd time.Duration
	// reading is the time since the start of the call at which a Read began to
	// wait, plus one, 0 while none does. Only kept where an idle gap is limited.
	reading  atomic.Int64
	phase    atomic.Uint32
	finished atomic.Bool // after a limit fired, else the phase says so
	// asleep is the timer that does not look after the idle gap since nobody reads:
	// the next Read wakes it. It ran out once, so no other scope ever has it.
	asleep atomic.Pointer[scopeTimer]
	// limited says that something may end the scope before its parent.
	limited bool
	// onLimit is told of a limit that ended the scope; nil for nobody.
	onLimit Interrupter
}

// Interrupter ends the work of an attempt whose library knows no contexts.
type Interrupter interface {
	// Interrupt is called once, by any goroutine, and must not block.
	Interrupt()
}

// OnLimit has a limit that ends the scope tell i, when [Scope.Fired] says so
// already; no context is made for that. The end of the parent is not told. It
// has to be called before Open.
func (s *Scope) OnLimit(i Interrupter) { s.onLimit = i }

// Open starts the limits of an attempt that begins at now. A policy without any
// limit and without retries costs nothing: the scope is then the parent.
func (s *Scope) Open(parent context.Context, c *Call, now time.Time) {
	s.open(parent, c, c.since(now), false)
}

// OpenNext counts an attempt, as [Call.BeginAttempt] does, and opens it. awaited
// says that the library is known to wait at once for a context that it makes right
// of the scope, as a transport over a network does. That spares work, see
// [Scope.AfterFunc].
func (s *Scope) OpenNext(parent context.Context, c *Call, awaited bool) {
	c.count()
	s.open(parent, c, c.began, awaited)
}

func (s *Scope) open(parent context.Context, c *Call, began time.Duration, awaited bool) {
	p := c.Policy
	s.call, s.policy, s.Context = c, p, parent
	attemptEnd := never
	if p.Attempt > 0 && !p.Shadow {
		attemptEnd = began + p.Attempt
	}
	s.attemptEnd, s.bodyEnd = attemptEnd, never
	end := min(s.totalEnd(), attemptEnd)
	s.limited = end != never || !p.Shadow && (p.BodyIdle > 0 || p.needsTracing || p.MaxAttempts > 1)
	if awaited && s.limited && parent.Done() == nil {
		s.own.done = make(chan struct{}) // a root, see AfterFunc
	}
	if end != never && (awaited || s.onLimit != nil || p.BodyIdle > 0) {
		s.arm(began, end-began)
	}
}

// totalEnd is the end of the call. One in mode Shadow has none; a hop in mode Shadow
// has that of its call.
func (s *Scope) totalEnd() time.Duration { return s.call.before(s.call.end) }

// idle is how long a Read of the body may take; 0 for any time.
func (s *Scope) idle() time.Duration {
	if s.policy.Shadow {
		return 0
	}
	return s.policy.BodyIdle
}

// Look asks the clock: it returns the time since the start of the call, and the
// limit that has ended the scope by then, LimitNone for none.
func (s *Scope) Look() (now time.Duration, fired Limit) {
	now = s.call.elapsed()
	if !s.limited {
		return now, LimitNone
	}
	switch phase := s.phase.Load(); {
	case phase == phaseHeaders && now >= min(s.totalEnd(), s.attemptEnd):
		s.fireFrom(phaseHeaders, s.firstLimit())
	case phase == phaseBody && now >= s.bodyEnd:
		s.fireFrom(phaseBody, LimitTotal)
	}
	return now, s.fired()
}

// firstLimit is the limit that comes first until the headers. A tie is the
// total's: nothing is left to try again in.
func (s *Scope) firstLimit() Limit {
	if s.attemptEnd < s.totalEnd() {
		return LimitAttempt
	}
	return LimitTotal
}

// Rules returns the policy that the attempt was made under; the call may have gone
// on to a hop with another one.
func (s *Scope) Rules() *Policy { return s.policy }

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
	s.own.end(limitErrors[l])
	if s.onLimit != nil {
		s.onLimit.Interrupt()
	}
	return true
}

// Fired returns the limit that ended the scope, LimitNone for none. It asks the
// clock where no timer does.
func (s *Scope) Fired() Limit {
	if s.timer.Load() == nil && s.limited {
		_, limit := s.Look()
		return limit
	}
	return s.fired()
}

func (s *Scope) fired() Limit {
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
		end := s.totalEnd()
		if s.bodyEnd != never {
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

// Watched reports whether the body phase has a limit of its own.
func (s *Scope) Watched() bool {
	return s.phase.Load() == phaseBody && (s.idle() > 0 || s.bodyEnd != never)
}

// EnterBody ends the attempt's ceiling: the headers are there. stream says that
// the body is a stream, whose total ends here too unless the policy says
// otherwise. It returns false when a limit passed first; the response then must
// be dropped. A timer that still serves the total is left alone: if it finds
// itself early it arms itself anew, so that a quick call pays one swap.
func (s *Scope) EnterBody(stream bool) bool {
	now, fired := s.Look()
	s.call.decided = now
	if !s.limited {
		return true
	}
	if fired != LimitNone {
		return false
	}
	s.bodyEnd = s.endOfBody(stream)
	if !s.phase.CompareAndSwap(phaseHeaders, phaseBody) {
		s.bodyEnd = never
		return false
	}
	if s.idle() == 0 && (s.timer.Load() == nil || s.bodyEnd != never && s.bodyEnd == s.totalEnd()) {
		return true
	}
	s.disarm()
	// The idle gap may be shorter than what the timer waited for.
	if wait := s.untilNext(now); wait > 0 {
		s.arm(now, wait)
	}
	return true
}

// endOfBody returns when the body has to be there: at the end of the total where
// that goes on after the headers, by the rules of the hop that brought them, else
// at the end of the budget or the call site's cap, streams excepted.
func (s *Scope) endOfBody(stream bool) time.Duration {
	switch scope := s.policy.Scope; {
	case scope == document.ScopeBody, scope == "" && !stream:
		return s.totalEnd()
	case stream:
		return never
	default:
		return s.call.before(min(s.call.budget, s.call.limit))
	}
}

// Over reports whether the time of the attempt is up at a time, and whose limit
// it was: until the headers that of the call, from then on that of the body.
func (s *Scope) Over(now time.Time) (Attribution, bool) {
	c, since := s.call, s.call.since(now)
	if s.phase.Load() == phaseHeaders {
		return c.expired(since)
	}
	for _, end := range [...]time.Duration{s.bodyEnd, c.caller} {
		if end != never && since >= end {
			return c.attributeEnd(end), true
		}
	}
	return Attribution{}, false
}

// BeginRead and EndRead bracket a Read of the body, so that the idle gap counts
// the time in which the peer is silent and not the time in which the caller
// does something else.
func (s *Scope) BeginRead() {
	if s.idle() <= 0 {
		return
	}
	now := s.call.elapsed()
	s.reading.Store(int64(now) + 1)
	if t := s.asleep.Load(); t != nil && s.asleep.CompareAndSwap(t, nil) {
		t.again(s, now, s.untilNext(now))
	}
}

// EndRead ends what BeginRead began.
func (s *Scope) EndRead() {
	if s.idle() > 0 {
		s.reading.Store(0)
	}
}

// Finish ends the scope: timer stopped, context cancelled. It may be called
// more than once and from any goroutine; what fired before stays fired.
func (s *Scope) Finish() {
	if !s.limited || !s.finish() {
		return
	}
	s.disarm()
	// A limit that fires at this moment is the cause, whoever comes first.
	s.own.end(limitErrors[s.fired()])
}

// finish ends the phase under way; false when the scope is finished already.
func (s *Scope) finish() bool {
	for {
		switch phase := s.phase.Load(); {
		case phase == phaseDone:
			return false
		case phase >= phaseFired:
			return !s.finished.Swap(true)
		case s.phase.CompareAndSwap(phase, phaseDone):
			return true
		}
	}
}

// expire is what the timer calls. One that the scope let go of meanwhile, for another
// or because it ended, has no say any more.
func (s *Scope) expire(t *scopeTimer) {
	if s.timer.Load() != t {
		return
	}
	if s.phase.Load() == phaseHeaders && s.fireFrom(phaseHeaders, s.firstLimit()) {
		return
	}
	// Or the headers came, or the attempt ended, at the same moment.
	if s.phase.Load() == phaseBody {
		s.expireBody(t)
	}
}

func (s *Scope) expireBody(t *scopeTimer) {
	now := s.call.elapsed()
	if s.bodyEnd != never && now >= s.bodyEnd {
		s.fireFrom(phaseBody, LimitTotal)
		return
	}
	silent, reading := s.silence(now)
	switch {
	case s.idle() == 0:
		t.again(s, now, s.untilNext(now))
	case !reading:
		s.sleep(t, now)
	case silent >= s.idle():
		s.fireFrom(phaseBody, LimitBodyIdle)
	default:
		t.again(s, now, s.untilNext(now))
	}
}

// sleep leaves the idle gap to the next Read, so that a body that nobody reads
// costs nothing. The timer goes on for the total alone.
func (s *Scope) sleep(t *scopeTimer, now time.Duration) {
	if s.bodyEnd != never {
		t.again(s, now, max(1, s.bodyEnd-now))
	}
	if s.timer.Load() != t {
		return
	}
	s.asleep.Store(t)
	if s.reading.Load() != 0 && s.asleep.CompareAndSwap(t, nil) {
		// A Read began meanwhile and did not see that it had to wake the timer.
		t.again(s, now, s.untilNext(now))
	}
}

// silence returns how long a Read has been waiting.
func (s *Scope) silence(now time.Duration) (time.Duration, bool) {
	since := s.reading.Load()
	if since == 0 {
		return 0, false
	}
	return now - time.Duration(since-1), true
}

// untilNext returns how long the timer has to wait in the body phase; 0 for not
// at all.
func (s *Scope) untilNext(now time.Duration) time.Duration {
	var wait time.Duration
	if s.bodyEnd != never {
		wait = max(1, s.bodyEnd-now)
	}
	if s.idle() > 0 {
		idle := s.idle()
		if silent, ok := s.silence(now); ok {
			idle = max(1, s.idle()-silent)
		}
		if wait == 0 || idle < wait {
			wait = idle
		}
	}
	return wait
}
