package engine

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"
)

// A call that is forgotten keeps the spare timer from nobody, and the spare timer keeps
// nothing of it.
func TestAForgottenCallIsNotInTheWay(t *testing.T) {
	type large [1 << 16]byte
	type attempt struct {
		Scope
		payload *large
	}
	for _, c := range []struct {
		name, rules string
		limit       Limit
	}{
		{"cut by the total", `"timeouts":{"total":"10ms"}`, LimitTotal},
		{"cut by the idle gap", `"timeouts":{"total":"1h","bodyIdle":"10ms"}`, LimitBodyIdle},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := New(Options{})
			p := swapped(t, e, c.rules).Lookup("orders", 80, callOf("GET"))
			next := func() *Scope { return openedRoot(context.Background(), calling(t, e, p)) }
			next().Finish() // there is a spare now
			kept := func() weak.Pointer[large] {
				a := &attempt{payload: new(large)}
				a.OpenNext(context.Background(), calling(t, e, p), true)
				a.EnterBody(false)
				a.BeginRead()
				<-a.Done()
				if a.fired() != c.limit {
					t.Errorf("ended by %v, want %v", a.fired(), c.limit)
				}
				return weak.Make(a.payload)
			}()
			seen := map[*scopeTimer]bool{}
			for range 20 {
				s := next()
				seen[s.timer.Load()] = true
				s.Finish()
				runtime.GC() // the pool forgets
				runtime.GC()
			}
			if len(seen) > 2 {
				t.Errorf("20 calls had %d timers", len(seen))
			}
			if kept.Value() != nil {
				t.Error("what was forgotten is kept")
			}
		})
	}
}

// A timer that is released before it is started is no spare for ever.
func TestATimerThatIsReleasedTooSoonIsForgotten(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"1h"}`).Lookup("orders", 80, callOf("GET"))
	openedRoot(context.Background(), calling(t, e, p)).Finish()
	early := e.timer()
	if early != e.timers.spare.Load() {
		t.Fatal("the spare timer was not taken")
	}
	early.release(e)
	if e.timers.spare.Load() == early {
		t.Error("it is kept, and taken")
	}
}

// Nobody has the timer of another, whatever they take, put back and lose.
func TestATimerIsNobodyElses(t *testing.T) {
	e := New(Options{})
	p := swapped(t, e, `"timeouts":{"total":"2ms"}`).Lookup("orders", 80, callOf("GET"))
	end := time.Now().Add(300 * time.Millisecond)
	done := make(chan struct{})
	for g := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := 0; time.Now().Before(end); i++ {
				own := e.timer()
				if own.scope != nil {
					t.Error("the timer of a scope was given to another one")
					return
				}
				own.scope = new(Scope)
				runtime.Gosched()
				if i%7 == g%7 {
					continue // lost
				}
				e.timers.put(own)
				s := openedRoot(context.Background(), calling(t, e, p))
				if i%50 == g {
					<-s.Done()
				}
				s.Finish()
			}
		}()
	}
	for range 8 {
		<-done
	}
}
