package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
)

type valueKey struct{}

// The ways in which an attempt is opened: the usual one below a caller who may leave,
// and as a root, whose caller never does.
const (
	openedAsUsual = "as usual"
	openedAsRoot  = "as a root"
)

var openings = map[string]opening{
	openedAsUsual: {opened, context.WithCancelCause},
	openedAsRoot: {openedRoot, func(values context.Context) (context.Context, context.CancelCauseFunc) {
		return context.WithoutCancel(values), func(error) {}
	}},
}

type opening struct {
	scope  func(ctx context.Context, c *Call) *Scope
	parent func(values context.Context) (context.Context, context.CancelCauseFunc)
}

// openedRoot is opened for a library that makes its context right of the scope.
func openedRoot(ctx context.Context, c *Call) *Scope {
	s := new(Scope)
	s.OpenNext(ctx, c, true)
	return s
}

// Nobody waits for the context while the attempt is under way; what it says
// afterwards is what it would have said all along.
func TestAContextThatIsAskedLate(t *testing.T) {
	errLeft := errors.New("left")
	ofLimit := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && CauseOf(err) == nil }
	for _, c := range []struct {
		name  string
		end   func(s *Scope, leave context.CancelCauseFunc)
		cause func(error) bool
	}{
		{"a limit", func(s *Scope, _ context.CancelCauseFunc) { s.Fire(LimitConnect) }, ofLimit},
		{"a limit, then the end of the attempt", func(s *Scope, _ context.CancelCauseFunc) { s.Fire(LimitConnect); s.Finish() }, ofLimit},
		{"a limit, then the caller", func(s *Scope, leave context.CancelCauseFunc) { s.Fire(LimitConnect); leave(errLeft) }, ofLimit},
		{"the clock", func(*Scope, context.CancelCauseFunc) { time.Sleep(time.Second); synctest.Wait() }, ofLimit},
		{"the end of the attempt", func(s *Scope, _ context.CancelCauseFunc) { s.Finish() },
			func(err error) bool { return err == context.Canceled }},
		{"the end of the attempt, then a limit", func(s *Scope, _ context.CancelCauseFunc) { s.Finish(); s.Fire(LimitConnect) },
			func(err error) bool { return err == context.Canceled }},
		{"the caller", func(_ *Scope, leave context.CancelCauseFunc) { leave(errLeft) },
			func(err error) bool { return err == errLeft }},
	} {
		for asked, ask := range lateQuestions {
			for opening, open := range openings {
				if opening == openedAsRoot && strings.HasSuffix(c.name, "the caller") {
					continue // has no way to leave
				}
				inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
					parent, leave := open.parent(context.WithValue(t.Context(), valueKey{}, "kept"))
					s := open.scope(parent, mustBegin(t, parent, e, `"timeouts":{"total":"1s","connect":"1s"}`))
					if s.Err() != nil || context.Cause(s) != nil || s.Value(valueKey{}) != "kept" {
						t.Errorf("before: %v, %v", s.Err(), s.Value(valueKey{}))
					}
					c.end(s, leave)
					if cause := ask(t, s); !c.cause(cause) {
						t.Errorf("%s, %s, asked for %s: cause %v", opening, c.name, asked, cause)
					}
					if s.Value(valueKey{}) != "kept" {
						t.Errorf("%s, %s, asked for %s: the parent's values are gone", opening, c.name, asked)
					}
					s.Finish()
					leave(nil)
				})
			}
		}
	}
}

// lateQuestions are the ways to learn what a scope ended for.
var lateQuestions = map[string]func(t *testing.T, s *Scope) error{
	"cause": func(_ *testing.T, s *Scope) error { return context.Cause(s) },
	"done":  func(_ *testing.T, s *Scope) error { <-s.Done(); return context.Cause(s) },
	"error": func(t *testing.T, s *Scope) error {
		if s.Err() != context.Canceled {
			t.Errorf("error %v", s.Err())
		}
		return context.Cause(s)
	},
	"child": func(_ *testing.T, s *Scope) error { return causeOfChild(s) },
	"child of a value": func(_ *testing.T, s *Scope) error {
		return causeOfChild(context.WithValue(s, valueKey{}, "another"))
	},
	"function": func(_ *testing.T, s *Scope) error {
		called := make(chan error)
		context.AfterFunc(s, func() { called <- context.Cause(s) })
		return <-called
	},
	"own function": func(_ *testing.T, s *Scope) error {
		called := make(chan error, 1)
		s.AfterFunc(func() { called <- context.Cause(s) })
		return <-called
	},
}

func causeOfChild(ctx context.Context) error {
	child, stop := context.WithCancel(ctx)
	defer stop()
	<-child.Done()
	return context.Cause(child)
}

// Whoever waits is woken, whenever he began to wait.
func TestTheContextIsMadeWhileTheScopeEnds(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","connect":"1s"}`).Lookup("orders", 80, callOf("GET"))
	for opening, open := range openings {
		for range 500 {
			c := calling(t, e, p)
			s := open.scope(context.Background(), c)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { <-s.Done() })
				all.Go(func() { _ = s.Err(); _ = context.Cause(s) })
			}
			all.Go(func() { s.Fire(LimitConnect) })
			all.Go(s.Finish)
			all.Wait()
			if s.Err() == nil || context.Cause(s) == nil {
				t.Fatalf("%s: the context outlived the attempt", opening)
			}
			if limit := s.Fired() != LimitNone; limit != errors.Is(context.Cause(s), context.DeadlineExceeded) {
				t.Fatalf("%s: fired %t, cause %v", opening, limit, context.Cause(s))
			}
		}
	}
}

// A deadline of the caller's without a monotonic reading, and one beyond what a
// duration can say.
func TestDeadlinesOfTheCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		for name, end := range map[string]time.Time{
			"wall clock": time.Now().Add(time.Second).Round(0),
			"far away":   time.Now().AddDate(400, 0, 0),
		} {
			ctx, cancel := context.WithDeadline(t.Context(), end)
			s := opened(ctx, mustBegin(t, ctx, e, `"retry":{"maxAttempts":2}`))
			if got, ok := s.Deadline(); !ok || !got.Equal(end) {
				t.Errorf("%s: %s, %t, want %s", name, got, ok, end)
			}
			s.Finish()
			cancel()
		}
	})
}
