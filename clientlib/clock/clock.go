// Package clock is time as an argument: what waits or measures in this library
// asks a Clock, so that a test can stand in for it.
//
// Most tests need no fake: inside a testing/synctest bubble [System] is a fake
// clock already. The interface is for the rest, such as a wall clock that is
// set back.
package clock

import "time"

// Clock tells the time and starts timers. Implementations are safe for
// concurrent use.
type Clock interface {
	// Now is the current time, with a monotonic reading where there is one.
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own when d has passed. C of the
	// timer it returns is nil. A d of zero or less is now.
	AfterFunc(d time.Duration, f func()) Timer
	// NewTimer sends the time on C of the timer it returns when d has passed.
	// A d of zero or less is now.
	NewTimer(d time.Duration) Timer
}

// Timer is a started timer, with the methods of [time.Timer]. Stop and Reset
// may be called from several goroutines.
type Timer interface {
	// Stop keeps the timer from firing. It returns false when the timer fired
	// or was stopped before. After Stop nothing stale is received from C.
	Stop() bool
	// Reset starts the timer anew and returns whether it was running. After
	// Reset nothing stale is received from C.
	Reset(d time.Duration) bool
	// C delivers the time at which the timer fired; nil for AfterFunc.
	C() <-chan time.Time
}

// System returns the clock of the operating system. It costs nothing over
// package time.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

func (system) NewTimer(d time.Duration) Timer {
	return systemTimer{time.NewTimer(d)}
}

// systemTimer gives time.Timer the channel as a method. A struct of one pointer
// fits into an interface without an allocation.
type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }
