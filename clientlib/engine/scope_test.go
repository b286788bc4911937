package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

func callOf(method string) document.Call { return document.Call{Method: method, Path: "/"} }

// opened begins an attempt of a call.
func opened(ctx context.Context, c *Call) *Scope {
	s := new(Scope)
	_, now := c.BeginAttempt()
	s.Open(ctx, c, now)
	return s
}

func TestAScopeFiresForTheLimitThatIsFirst(t *testing.T) {
	for _, c := range []struct {
		rules string
		after time.Duration
		limit Limit
		field string
	}{
		{`"timeouts":{"total":"2s","attempt":"1s"}`, time.Second, LimitAttempt, "timeouts.attempt"},
		{`"timeouts":{"total":"2s"}`, 2 * time.Second, LimitTotal, "timeouts.total"},
		{`"timeouts":{"attempt":"3s"}`, 3 * time.Second, LimitAttempt, "timeouts.attempt"},
		// A tie is the total's: nothing is left to try again in.
		{`"timeouts":{"total":"1s","attempt":"1s"}`, time.Second, LimitTotal, "timeouts.total"},
	} {
		inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
			call := mustBegin(t, t.Context(), e, c.rules)
			s := opened(t.Context(), call)
			<-s.Done()
			if time.Since(call.Start()) != c.after || s.Fired() != c.limit || s.Attribution(c.limit).Field != c.field {
				t.Errorf("%s: %v after %s by %+v", c.rules, s.Fired(), time.Since(call.Start()), s.Attribution(s.Fired()))
			}
			if cause := context.Cause(s); !errors.Is(cause, context.DeadlineExceeded) || CauseOf(cause) != nil {
				t.Errorf("cause %v", cause)
			}
			s.Finish()
			if s.Fired() != c.limit {
				t.Error("the end of the attempt undid what fired")
			}
		})
	}
}

func TestAScopeWithoutLimitsCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
		s := opened(t.Context(), mustBegin(t, t.Context(), e, ``))
		if s.Context != t.Context() || timers.Live() != 0 {
			t.Error("a context or a timer was made")
		}
		if !s.EnterBody(false) || s.Watched() {
			t.Error("the body is watched")
		}
		s.BeginRead()
		s.EndRead()
		s.Finish()
	})
}

// 4.8: where the caller's deadline is sooner than the total it does the work.
func TestACallersSoonerDeadlineNeedsNoTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := opened(ctx, mustBegin(t, ctx, e, `"timeouts":{"total":"2s"}`))
		if timers.Live() != 0 {
			t.Error("a timer was made")
		}
		if end, ok := s.Deadline(); !ok || time.Until(end) != time.Second {
			t.Errorf("deadline in %s, %t", time.Until(end), ok)
		}
		s.Finish()
	})
}

func TestTheTimerIsUsedAgainUnlessItFired(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
		for range 3 {
			s := opened(t.Context(), mustBegin(t, t.Context(), e, `"timeouts":{"total":"1s"}`))
			for range 2 {
				s.Done()
				if n := timers.Live(); n != 1 {
					t.Errorf("%d timers for one attempt", n)
				}
			}
			if !s.EnterBody(false) {
				t.Error("no body")
			}
			s.Finish()
			s.Finish()
		}
		s := opened(t.Context(), mustBegin(t, t.Context(), e, `"timeouts":{"total":"1s"}`))
		<-s.Done()
		s.Finish()
		next := opened(t.Context(), mustBegin(t, t.Context(), e, `"timeouts":{"total":"1s"}`))
		time.Sleep(999 * time.Millisecond)
		if next.Err() != nil {
			t.Error("a timer that fired cut the next call")
		}
		next.Finish()
	})
}

// What nobody waits for needs no timer: the clock says what passed, whoever asks
// it.
func TestALimitPassesWithoutATimer(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules string
		body  bool // the limit passes in the body
		ask   func(s *Scope)
		limit Limit
	}{
		{"attempt, headers late", `"timeouts":{"total":"2s","attempt":"1s"}`, false, func(s *Scope) { s.EnterBody(false) }, LimitAttempt},
		{"total, headers late", `"timeouts":{"total":"1s"}`, false, func(s *Scope) { s.EnterBody(false) }, LimitTotal},
		{"attempt, asked what fired", `"timeouts":{"total":"2s","attempt":"1s"}`, false, func(s *Scope) { s.Fired() }, LimitAttempt},
		{"attempt, looked at", `"timeouts":{"total":"2s","attempt":"1s"}`, false, func(s *Scope) { s.Look() }, LimitAttempt},
		{"attempt, asked for its error", `"timeouts":{"total":"2s","attempt":"1s"}`, false, func(s *Scope) { _ = s.Err() }, LimitAttempt},
		{"attempt, waited for too late", `"timeouts":{"total":"2s","attempt":"1s"}`, false, func(s *Scope) { <-s.Done() }, LimitAttempt},
		{"body, looked at", `"timeouts":{"total":"1s"}`, true, func(s *Scope) { s.Look() }, LimitTotal},
		{"body, asked for its error", `"timeouts":{"total":"1s"}`, true, func(s *Scope) { _ = s.Err() }, LimitTotal},
		{"body, waited for too late", `"timeouts":{"total":"1s"}`, true, func(s *Scope) { <-s.Done() }, LimitTotal},
		{"body, total ended at the headers", `"timeouts":{"total":"1s","scope":"Headers"}`, true, func(s *Scope) { s.Look() }, LimitNone},
	} {
		inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
			s := opened(t.Context(), mustBegin(t, t.Context(), e, c.rules))
			if c.body && !s.EnterBody(false) {
				t.Errorf("%s: no body", c.name)
			}
			time.Sleep(time.Second - 1)
			if s.Look(); s.Fired() != LimitNone || timers.Live() != 0 {
				t.Errorf("%s: before the limit %v, %d timers", c.name, s.Fired(), timers.Live())
			}
			time.Sleep(1)
			began := time.Now()
			if c.ask(s); s.Fired() != c.limit || time.Since(began) != 0 {
				t.Errorf("%s: %v, want %v", c.name, s.Fired(), c.limit)
			}
			s.Finish()
			if timers.Live() != 0 {
				t.Errorf("%s: a timer is left", c.name)
			}
		})
	}
}

// Whoever begins to wait while the attempt or its body is under way is woken when
// the limit passes.
func TestWhoeverBeginsToWaitIsWoken(t *testing.T) {
	for _, c := range []struct {
		rules string
		body  bool
		limit Limit
		after time.Duration
	}{
		{`"timeouts":{"total":"2s","attempt":"1s"}`, false, LimitAttempt, time.Second},
		{`"timeouts":{"total":"2s","attempt":"1s"}`, true, LimitTotal, 2 * time.Second},
		{`"timeouts":{"total":"2s"}`, true, LimitTotal, 2 * time.Second},
	} {
		inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
			call := mustBegin(t, t.Context(), e, c.rules)
			s := opened(t.Context(), call)
			time.Sleep(300 * time.Millisecond)
			if c.body {
				s.EnterBody(false)
			}
			time.Sleep(300 * time.Millisecond)
			<-s.Done()
			if took := time.Since(call.Start()); s.Fired() != c.limit || took != c.after {
				t.Errorf("%+v: %v after %s", c, s.Fired(), took)
			}
			s.Finish()
		})
	}
}

// A body that nobody reads costs no tick, with a total and without.
func TestAnUnreadBodyLetsTheTimerSleep(t *testing.T) {
	for _, rules := range []string{`"timeouts":{"bodyIdle":"10ms"}`, `"timeouts":{"bodyIdle":"10ms","total":"9h"}`} {
		inBubble(t, func(t *testing.T, e *Engine, timers *clienttest.Timers) {
			s := opened(t.Context(), mustBegin(t, t.Context(), e, rules))
			if !s.EnterBody(false) {
				t.Fatal("no body")
			}
			time.Sleep(time.Hour)
			if n := timers.Fired(); n != 1 {
				t.Errorf("%s: %d ticks in an hour", rules, n)
			}
			for range 3 {
				s.BeginRead()
				time.Sleep(9 * time.Millisecond)
				s.EndRead()
				time.Sleep(time.Minute)
			}
			if s.Err() != nil {
				t.Fatalf("%s: cut while the peer was never silent for long", rules)
			}
			s.BeginRead()
			before := time.Now()
			<-s.Done()
			if s.Fired() != LimitBodyIdle || time.Since(before) != 10*time.Millisecond {
				t.Errorf("%s: %v after %s", rules, s.Fired().Label(), time.Since(before))
			}
			s.Finish()
		})
	}
}

func TestTheTotalGoesOnWhileTheIdleGapSleeps(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		call := mustBegin(t, t.Context(), e, `"timeouts":{"bodyIdle":"10ms","total":"1s"}`)
		s := opened(t.Context(), call)
		s.EnterBody(false)
		<-s.Done()
		if s.Fired() != LimitTotal || time.Since(call.Start()) != time.Second {
			t.Errorf("%v after %s", s.Fired().Label(), time.Since(call.Start()))
		}
		s.Finish()
	})
}

// A limit fires for one phase only, and once.
func TestFireRespectsThePhase(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		open := func() *Scope {
			return opened(t.Context(), mustBegin(t, t.Context(), e, `"timeouts":{"total":"1s","connect":"1s","bodyIdle":"1s"}`))
		}
		s := open()
		s.Fire(LimitConnect)
		s.Fire(LimitResponseHeader)
		if s.Fired() != LimitConnect || s.EnterBody(false) {
			t.Errorf("fired %v, or the body was entered after it", s.Fired())
		}
		s.Finish()
		s = open()
		s.EnterBody(false)
		if s.Fire(LimitResponseHeader); s.Fired() != LimitNone {
			t.Error("a phase before the headers fired after them")
		}
		s.Finish()
		if s.Fire(LimitBodyIdle); s.Fired() != LimitNone {
			t.Error("a limit fired after the end")
		}
	})
}

// Headers, limit and end of an attempt at the same instant, many times over: one
// of them wins, and no timer is left or cuts another call.
func TestScopeUnderContention(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1ms","attempt":"1ms","bodyIdle":"1ms"}`).Lookup("orders", 80, callOf("GET"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				c := new(Call)
				if err := c.Begin(context.Background(), e, p, "test", "GET"); err != nil {
					t.Error(err)
					return
				}
				s := opened(context.Background(), c)
				var racers sync.WaitGroup
				racers.Go(func() { s.Fire(LimitConnect) })
				if s.EnterBody(false) {
					s.BeginRead()
					s.EndRead()
				} else if s.Fired() == LimitNone {
					t.Error("the body was refused and nothing had fired")
				}
				racers.Go(s.Finish)
				s.Finish()
				racers.Wait()
				if s.Err() == nil {
					t.Error("the context outlived the attempt")
				}
			}
		})
	}
	all.Wait()
}

func TestCauseOf(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}
	got := CauseOf(dial)
	var op *net.OpError
	if got == nil || errors.Is(got, context.Canceled) || !errors.As(got, &op) || got.Error() != dial.Error() {
		t.Errorf("%v lost its words, or is still a cancellation", got)
	}
	if CauseOf(context.Canceled) != nil || CauseOf(nil) != nil || CauseOf(io.EOF) != io.EOF {
		t.Error("what is nothing but the cancellation is nothing")
	}
}

// The deadline of the context is the call's and does not change with the phase.
func TestTheDeadlineIsConstant(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		s := opened(t.Context(), mustBegin(t, t.Context(), e, `"timeouts":{"total":"5s","attempt":"1s","scope":"Headers"}`))
		before, _ := s.Deadline()
		s.EnterBody(false)
		after, ok := s.Deadline()
		if !ok || !before.Equal(after) || time.Until(after) != 5*time.Second {
			t.Errorf("from %s to %s", before, after)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.Err() != nil {
			t.Error("the total went on after the headers")
		}
		if _, over := s.Over(time.Now()); over {
			t.Error("a total that ended at the headers is blamed in the body")
		}
		s.Finish()
	})
}

func TestLimitsSayTheirFieldKindAndLabel(t *testing.T) {
	for l, want := range map[Limit]struct {
		label string
		kind  failure.Kind
	}{
		LimitTotal: {"total", failure.TotalTimeout}, LimitAttempt: {"attempt", failure.AttemptTimeout},
		LimitConnect: {"connect", failure.ConnectTimeout}, LimitPool: {"connect", failure.PoolTimeout},
		LimitResponseHeader: {"response_header", failure.ReadTimeout}, LimitBodyIdle: {"body_idle", failure.ReadTimeout},
	} {
		if l.Label() != want.label || l.Kind() != want.kind {
			t.Errorf("%d: %s %v", l, l.Label(), l.Kind())
		}
	}
}

// interruption notes what the scope said when it interrupted.
type interruption struct {
	scope *Scope
	said  chan Limit
}

func (i *interruption) Interrupt() { i.said <- i.scope.Fired() }

func TestALimitInterruptsWithoutAContext(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		call := mustBegin(t, t.Context(), e, `"timeouts":{"total":"2s","attempt":"1s"}`)
		var cut, finished Scope
		told := &interruption{&cut, make(chan Limit, 1)}
		cut.OnLimit(told)
		cut.OpenNext(t.Context(), call, false)
		spared := &interruption{&finished, make(chan Limit, 1)}
		finished.OnLimit(spared)
		finished.OpenNext(t.Context(), call, false)
		finished.Finish()
		if limit := <-told.said; limit != LimitAttempt || time.Since(call.Start()) != time.Second || cut.own.made.Load() {
			t.Errorf("%v after %s, with a context: %t", limit, time.Since(call.Start()), cut.own.made.Load())
		}
		cut.Finish()
		synctest.Wait()
		if len(told.said)+len(spared.said) != 0 {
			t.Error("told twice, or of an attempt that had ended")
		}
	})
}

// Whoever asks only after the end learns the same as those who asked before.
func TestTheEndOfAnAttemptIsNoTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		call := mustBegin(t, t.Context(), e, `"timeouts":{"total":"2s"}`)
		for _, early := range []bool{true, false} {
			var s Scope
			s.OpenNext(t.Context(), call, false)
			if early {
				s.Done()
			}
			s.Finish()
			if cause := context.Cause(&s); s.Err() != context.Canceled || cause != context.Canceled {
				t.Errorf("asked early: %t: %v because of %v", early, s.Err(), cause)
			}
		}
	})
}
