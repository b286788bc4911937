package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// A child that is made while the root ends is cancelled, and the making returns.
func TestAChildIsMadeWhileTheRootEnds(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","connect":"1s"}`).Lookup("orders", 80, callOf("GET"))
	for range 500 {
		s := openedRoot(context.Background(), calling(t, e, p))
		var ready atomic.Int32
		meet := func() {
			for ready.Add(1); ready.Load() < 2; {
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			meet()
			child, stop := context.WithCancel(s)
			defer stop()
			<-child.Done()
		})
		all.Go(func() { meet(); s.Fire(LimitConnect) })
		all.Wait()
		s.Finish()
	}
}

// What is kept at the moment at which the root ends is called by nobody who may be
// in its way: package context holds a lock that it takes.
func TestARootEndsWhileItIsGivenAFunction(t *testing.T) {
	var mu sync.Mutex
	called := make(chan struct{})
	o := ownContext{done: make(chan struct{}), after: func() {
		mu.Lock()
		defer mu.Unlock()
		close(called)
	}}
	o.root.Store(rootTaken)
	o.endRoot()
	mu.Lock()
	o.kept()
	mu.Unlock()
	<-called
}

// A child of a root ends for what the root ended for, while somebody else makes the
// standard library's context of the root.
func TestAChildOfARootHasItsCauseUnderContention(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","connect":"1s"}`).Lookup("orders", 80, callOf("GET"))
	for range 2000 {
		s := openedRoot(context.Background(), calling(t, e, p))
		child, leave := context.WithCancel(s)
		var all sync.WaitGroup
		all.Go(func() { context.AfterFunc(s, func() {})() })
		all.Go(func() { s.Fire(LimitConnect) })
		all.Wait()
		<-child.Done()
		if context.Cause(child) != limitErrors[LimitConnect] {
			t.Fatalf("cause %v, of the child %v", context.Cause(s), context.Cause(child))
		}
		s.Finish()
		leave()
	}
}

// Whoever lets go of a timer leaves it alone from then on: another scope has it.
func TestATimerOfAnotherScopeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{})
		p := swapped(t, e, `"timeouts":{"total":"1s"}`).Lookup("orders", 80, callOf("GET"))
		open := func() *Scope {
			return opened(context.Background(), calling(t, e, p))
		}
		for i := range 500 {
			var all sync.WaitGroup
			a, b := open(), open()
			all.Go(func() { a.Done() })
			all.Go(a.Finish)
			all.Go(func() {
				began := time.Now()
				select {
				case <-b.Done():
				case <-time.After(time.Minute):
					t.Errorf("run %d: nobody was woken", i)
				}
				if d := time.Since(began); d != time.Second {
					t.Errorf("woken after %s", d)
				}
				b.Finish()
			})
			all.Wait()
			if t.Failed() {
				return
			}
		}
	})
}

// A timer that ran out just before its scope took another one has no say in what
// that one does, above all not that it sleeps: whoever wakes it may find it in the
// hands of another call.
func TestATimerThatWasLetGoOfHasNoSay(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h","attempt":"1h","bodyIdle":"1m"}`).Lookup("orders", 80, callOf("GET"))
	s := openedRoot(context.Background(), calling(t, e, p))
	old := s.timer.Load()
	old.alarm.Stop()   // as when it runs out, and is about to say so
	s.EnterBody(false) // takes another one
	old.fire()
	fresh := s.timer.Load()
	if s.BeginRead(); fresh == old || fresh.rearmed.Load() {
		t.Error("the old timer had the new one started")
	}
	if old.alarm.Stop() {
		t.Error("the old timer runs")
	}
	s.Finish()
}

// hooked runs something while a timer is stopped.
type hooked struct {
	clienttest.Timers
	hook func()
}

type hookedTimer struct {
	clock.Timer
	of *hooked
}

func (h *hooked) AfterFunc(d time.Duration, f func()) clock.Timer {
	return hookedTimer{h.Timers.AfterFunc(d, f), h}
}

func (t hookedTimer) Stop() bool {
	stopped := t.Timer.Stop()
	if hook := t.of.hook; hook != nil {
		t.of.hook = nil
		hook()
	}
	return stopped
}

// The total passes while EnterBody changes the timer, and a second one asks for the
// end just then.
func TestTheSecondWhoAsksFindsTheRootOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := &hooked{}
		e := New(Options{Clock: timers})
		c := mustBegin(t, context.Background(), e, `"timeouts":{"total":"1s","bodyIdle":"300ms"}`)
		s := openedRoot(context.Background(), c)
		child, leave := context.WithCancel(s)
		defer leave()
		second := make(chan struct{})
		timers.hook = func() {
			time.Sleep(time.Second)
			context.AfterFunc(s, func() { close(second) })
		}
		s.EnterBody(false)
		<-child.Done()
		<-second
		s.Finish()
	})
}
