package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
)

type valueKey struct{}

// Nobody waits for the context while the attempt is under way; what it says
// afterwards is what it would have said all along.
func TestAContextThatIsAskedLate(t *testing.T) {
	errLeft := errors.New("left")
	for _, c := range []struct {
		name  string
		end   func(s *Scope, leave context.CancelCauseFunc)
		cause func(error) bool
	}{
		{"a limit", func(s *Scope, _ context.CancelCauseFunc) { s.Fire(LimitConnect) },
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && CauseOf(err) == nil }},
		{"a limit, then the caller", func(s *Scope, leave context.CancelCauseFunc) { s.Fire(LimitConnect); leave(errLeft) },
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && CauseOf(err) == nil }},
		{"the end of the attempt", func(s *Scope, _ context.CancelCauseFunc) { s.Finish() },
			func(err error) bool { return err == context.Canceled }},
		{"the caller", func(_ *Scope, leave context.CancelCauseFunc) { leave(errLeft) },
			func(err error) bool { return err == errLeft }},
	} {
		for asked, ask := range map[string]func(s *Scope) error{
			"cause": func(s *Scope) error { return context.Cause(s) },
			"done":  func(s *Scope) error { <-s.Done(); return context.Cause(s) },
			"error": func(s *Scope) error {
				if s.Err() != context.Canceled {
					t.Errorf("%s: error %v", c.name, s.Err())
				}
				return context.Cause(s)
			},
			"child": func(s *Scope) error {
				child, stop := context.WithCancel(s)
				defer stop()
				<-child.Done()
				return context.Cause(child)
			},
		} {
			inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
				parent, leave := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "kept"))
				s := opened(parent, mustBegin(t, parent, e, `"timeouts":{"total":"1s","connect":"1s"}`))
				if s.Err() != nil || s.Value(valueKey{}) != "kept" {
					t.Errorf("before: %v, %v", s.Err(), s.Value(valueKey{}))
				}
				c.end(s, leave)
				if cause := ask(s); !c.cause(cause) {
					t.Errorf("%s, asked for %s: cause %v", c.name, asked, cause)
				}
				if s.Value(valueKey{}) != "kept" {
					t.Errorf("%s, asked for %s: the parent's values are gone", c.name, asked)
				}
				s.Finish()
				leave(nil)
			})
		}
	}
}

// Whoever waits is woken, whenever he began to wait.
func TestTheContextIsMadeWhileTheScopeEnds(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","connect":"1s"}`).Lookup("orders", 80, callOf("GET"))
	for range 500 {
		c := new(Call)
		if err := c.Begin(context.Background(), e, p, "test", "GET"); err != nil {
			t.Fatal(err)
		}
		s := opened(context.Background(), c)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { <-s.Done() })
			all.Go(func() { _ = s.Err(); _ = context.Cause(s) })
		}
		all.Go(func() { s.Fire(LimitConnect) })
		all.Go(s.Finish)
		all.Wait()
		if s.Err() == nil || context.Cause(s) == nil {
			t.Fatal("the context outlived the attempt")
		}
		if limit := s.Fired() != LimitNone; limit != errors.Is(context.Cause(s), context.DeadlineExceeded) {
			t.Fatalf("fired %t, cause %v", limit, context.Cause(s))
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
