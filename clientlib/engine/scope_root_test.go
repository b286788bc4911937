package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
)

// inRoot runs a test in fake time with a root that has a total of a second.
func inRoot(t *testing.T, test func(t *testing.T, s *Scope)) {
	t.Helper()
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		ctx := context.WithValue(context.Background(), valueKey{}, "kept")
		s := openedRoot(ctx, mustBegin(t, ctx, e, `"timeouts":{"total":"1s","connect":"1s"}`))
		test(t, s)
		s.Finish()
	})
}

// goroutines counts those of the test in fake time: others come and go as the runtime
// likes.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ", synctest bubble ")
}

// endings are the ways in which a root ends, and what contexts that are made of it
// say of it afterwards.
var endings = []struct {
	name  string
	end   func(s *Scope)
	limit bool
}{
	{"a limit", func(s *Scope) { s.Fire(LimitConnect) }, true},
	{"the clock, waited for", func(*Scope) { time.Sleep(time.Second); synctest.Wait() }, true},
	{"the end of the attempt", (*Scope).Finish, false},
	{"the end of the body", func(s *Scope) { s.EnterBody(false); s.Finish() }, false},
	{"the total in the body", func(s *Scope) { s.EnterBody(false); time.Sleep(time.Second); synctest.Wait() }, true},
}

// rightCause says whether a cause is a limit's, or that of an attempt that is over.
func rightCause(cause error, limit bool) bool {
	if limit {
		return errors.Is(cause, context.DeadlineExceeded) && CauseOf(cause) == nil
	}
	return cause == context.Canceled
}

// What transports make right of a root costs no goroutine and has ended when the
// root has, for the same cause.
func TestAChildOfARootEndsWithIt(t *testing.T) {
	for name, derive := range map[string]func(ctx context.Context) (context.Context, func()){
		"cancel": func(ctx context.Context) (context.Context, func()) {
			child, stop := context.WithCancel(ctx)
			return child, stop
		},
		"cancel for a cause": func(ctx context.Context) (context.Context, func()) {
			child, stop := context.WithCancelCause(ctx)
			return child, func() { stop(nil) }
		},
		"timeout": func(ctx context.Context) (context.Context, func()) {
			child, stop := context.WithTimeout(ctx, time.Hour)
			return child, stop
		},
		"grandchild": func(ctx context.Context) (context.Context, func()) {
			child, stop := context.WithCancel(ctx)
			grandchild, stopFirst := context.WithCancel(context.WithValue(child, valueKey{}, "another"))
			return grandchild, func() { stopFirst(); stop() }
		},
	} {
		for _, c := range endings {
			inRoot(t, func(t *testing.T, s *Scope) {
				before := goroutines()
				child, stop := derive(s)
				defer stop()
				synctest.Wait()
				if n := goroutines() - before; n != 0 {
					t.Errorf("%s: %d goroutines were started", name, n)
				}
				if child.Err() != nil {
					t.Errorf("%s: ended at once: %v", name, child.Err())
				}
				c.end(s)
				if child.Err() != context.Canceled || !rightCause(context.Cause(child), c.limit) {
					t.Errorf("%s, %s: %v, cause %v", name, c.name, child.Err(), context.Cause(child))
				}
				select {
				case <-child.Done():
				default:
					t.Errorf("%s, %s: the child is not woken", name, c.name)
				}
			})
		}
	}
}

// A child that took its leave is not told, and nothing of it is left; the root is
// none the worse for it.
func TestAChildLeavesItsRoot(t *testing.T) {
	errLeft := errors.New("left")
	inRoot(t, func(t *testing.T, s *Scope) {
		before := goroutines()
		for range 3 {
			child, leave := context.WithCancelCause(s)
			leave(errLeft)
			if context.Cause(child) != errLeft || s.Err() != nil {
				t.Errorf("child %v, root %v", context.Cause(child), s.Err())
			}
		}
		last, leave := context.WithCancel(s)
		defer leave()
		synctest.Wait()
		if n := goroutines() - before; n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
		s.Fire(LimitConnect)
		<-last.Done()
		if !rightCause(context.Cause(last), true) {
			t.Errorf("cause %v", context.Cause(last))
		}
	})
}

// Everybody who waits is woken, the first and the others, those who are right below
// the root and those who are not.
func TestAllWhoWaitForARootAreWoken(t *testing.T) {
	for _, c := range endings {
		inRoot(t, func(t *testing.T, s *Scope) {
			under := context.WithValue(s, valueKey{}, "another")
			var woken atomic.Int32
			count := func() { woken.Add(1) }
			var children []context.Context
			for _, parent := range []context.Context{s, s, under, under} {
				child, stop := context.WithCancel(parent)
				defer stop()
				children = append(children, child)
				context.AfterFunc(parent, count)
				go func() { <-parent.Done(); count() }()
			}
			s.AfterFunc(count)
			synctest.Wait()
			if goroutines() < 5 { // this one and those of the four that wait
				t.Error("goroutines are not counted")
			}
			if woken.Load() != 0 {
				t.Errorf("%s: %d woken before", c.name, woken.Load())
			}
			c.end(s)
			synctest.Wait()
			if woken.Load() != 9 {
				t.Errorf("%s: %d woken", c.name, woken.Load())
			}
			for i, child := range children {
				if child.Err() == nil || !rightCause(context.Cause(child), c.limit) {
					t.Errorf("%s, child %d: %v, cause %v", c.name, i, child.Err(), context.Cause(child))
				}
			}
			if s.Value(valueKey{}) != "kept" || children[2].Value(valueKey{}) != "another" {
				t.Errorf("%s: values are gone", c.name)
			}
		})
	}
}

// A function is called once, or was stopped: stop says which.
func TestStopOfAFunctionOfARoot(t *testing.T) {
	for _, order := range []string{"first", "second", "after the end"} {
		inRoot(t, func(t *testing.T, s *Scope) {
			called := 0
			register := func() func() bool { return s.AfterFunc(func() { called++ }) }
			switch order {
			case "second":
				defer s.AfterFunc(func() {})()
			case "after the end":
				s.Finish()
				stop := register()
				if synctest.Wait(); called != 1 || stop() || stop() {
					t.Errorf("%s: called %d times, or was stopped after that", order, called)
				}
				return
			}
			stop := register()
			if !stop() || stop() {
				t.Errorf("%s: stop says the opposite", order)
			}
			again := register()
			s.Fire(LimitConnect)
			if synctest.Wait(); called != 1 {
				t.Errorf("%s: called %d times, want once for the one that was not stopped", order, called)
			}
			if stop() || again() {
				t.Errorf("%s: stopped after the call", order)
			}
			if s.Finish(); called != 1 {
				t.Errorf("%s: called anew at the end of the attempt", order)
			}
		})
	}
}

// What a scope says of the end does not change with somebody who waits for it.
func TestARootEndsForWhatWasFirst(t *testing.T) {
	for _, waited := range []bool{false, true} {
		inRoot(t, func(t *testing.T, s *Scope) {
			if waited {
				defer context.AfterFunc(context.WithValue(s, valueKey{}, 1), func() {})()
				defer context.AfterFunc(s, func() {})()
			}
			s.Fire(LimitConnect)
			s.Fire(LimitResponseHeader)
			first := context.Cause(s)
			s.Finish()
			if cause := context.Cause(s); s.Fired() != LimitConnect || cause != first || !rightCause(cause, true) || s.Err() != context.Canceled {
				t.Errorf("waited for %t: %v, first %v, then %v", waited, s.Fired().Label(), first, cause)
			}
		})
	}
}

// Only what can be a root is one: a parent that may end is listened to.
func TestWhatIsNoRootListensToItsParent(t *testing.T) {
	errLeft := errors.New("left")
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		parent, leave := context.WithCancelCause(context.Background())
		s := openedRoot(parent, mustBegin(t, parent, e, `"timeouts":{"total":"1s"}`))
		child, stop := context.WithCancel(s)
		defer stop()
		called := make(chan struct{})
		s.AfterFunc(func() { close(called) })
		leave(errLeft)
		<-s.Done()
		<-child.Done()
		<-called
		if s.Fired() != LimitNone || context.Cause(s) != errLeft || context.Cause(child) != errLeft {
			t.Errorf("%v, cause %v, of the child %v", s.Fired().Label(), context.Cause(s), context.Cause(child))
		}
		s.Finish()
	})
}

// What roots are there for.
func TestARootSparesItsChildABook(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"retry":{"maxAttempts":2}`).Lookup("orders", 80, callOf("GET"))
	c := calling(t, e, p)
	cost := func(open func(context.Context, *Call) *Scope) float64 {
		return testing.AllocsPerRun(100, func() {
			s := open(context.Background(), c)
			_, leave := context.WithCancel(s)
			leave()
			s.Finish()
		})
	}
	if root, usual := cost(openedRoot), cost(opened); root >= usual {
		t.Errorf("a root takes %v allocations, any other scope %v", root, usual)
	}
}

// A policy without any limit has nothing to end: the scope is its parent.
func TestARootWithoutLimitsNeverEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Engine, _ *clienttest.Timers) {
		s := openedRoot(context.Background(), mustBegin(t, context.Background(), e, ``))
		stop := s.AfterFunc(func() { t.Error("called") })
		if s.Done() != nil || s.Err() != nil || context.Cause(s) != nil {
			t.Errorf("%v, %v", s.Done(), s.Err())
		}
		s.Finish()
		if s.Err() != nil || !stop() {
			t.Error("it ended with the attempt")
		}
	})
}

// A limit, the end of the attempt and all who take an interest in it at once: nobody
// is forgotten, and nobody is told twice.
func TestARootUnderContention(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","connect":"1s"}`).Lookup("orders", 80, callOf("GET"))
	for range 1000 {
		s := openedRoot(context.Background(), calling(t, e, p))
		kept, leave := context.WithCancel(s)
		var all, told sync.WaitGroup
		told.Add(2)
		for range 2 {
			all.Go(func() { tellOnce(t, s, &told) })
			all.Go(func() { <-s.Done(); _ = context.Cause(s) })
		}
		all.Go(func() { waitForChild(context.WithValue(s, valueKey{}, "another")) })
		all.Go(func() { s.Fire(LimitConnect) })
		all.Go(s.Finish)
		all.Wait()
		told.Wait()
		<-kept.Done()
		if limit := s.Fired() != LimitNone; !rightCause(context.Cause(s), limit) {
			t.Fatalf("fired %t, cause %v", limit, context.Cause(s))
		}
		leave()
	}
}

// tellOnce registers a function, takes it back where it can, and has done when it was
// called or taken back.
func tellOnce(t *testing.T, ctx context.Context, done *sync.WaitGroup) {
	var ends atomic.Int32
	end := func() {
		if ends.Add(1) > 1 {
			t.Error("called though it was stopped, or twice")
			return
		}
		done.Done()
	}
	if stop := context.AfterFunc(ctx, end); stop() {
		end()
	}
}

func waitForChild(ctx context.Context) {
	child, stop := context.WithCancel(ctx)
	defer stop()
	<-child.Done()
}
