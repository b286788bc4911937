package policytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// What tests by chance need: chance that repeats itself, rules to work under, and what
// holds whatever happened.

// Dice are chance, the same for the same seed as far as those who ask for it come in
// the same order. They are safe for concurrent use.
type Dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

// NewDice returns the dice of a seed.
func NewDice(seed uint64) *Dice { return &Dice{rnd: rand.New(rand.NewPCG(seed, 0))} } //nolint:gosec // not for secrets

// N returns a number from 0 up to n, n excluded.
func (d *Dice) N(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

// OneIn is true once in n times.
func (d *Dice) OneIn(n int) bool { return d.N(n) == 0 }

// Within returns some whole milliseconds, less than most.
func (d *Dice) Within(most time.Duration) time.Duration {
	return time.Duration(d.N(int(most/time.Millisecond))) * time.Millisecond
}

// MixedRules are rules of all kinds. Each ends every call in the end, or leaves that
// to the bodies' idle gap, or, in mode Shadow and without any rule, to the caller.
var MixedRules = []string{
	``,
	`"timeouts":{"total":"1s"}`,
	`"timeouts":{"attempt":"200ms"},"retry":{"maxAttempts":3,"methods":["GET","POST"],"retryableGRPCCodes":["UNAVAILABLE","DEADLINE_EXCEEDED"],"backoff":{"initial":"10ms"}}`,
	`"timeouts":{"total":"1s","attempt":"300ms","bodyIdle":"150ms","connect":"100ms","responseHeader":"200ms"},
		"retry":{"maxAttempts":4,"retryableGRPCCodes":["UNAVAILABLE"],"maxReplayBytes":10,"budget":{"percent":20,"burst":3}},
		"circuitBreaker":{"failures":3,"recovery":"500ms"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}`,
	`"timeouts":{"total":"700ms","scope":"Body","bodyIdle":"300ms"},"circuitBreaker":{"failures":2,"recovery":"300ms"}`,
	`"timeouts":{"total":"500ms","scope":"Headers"}`,
	`"timeouts":{"bodyIdle":"100ms"},"circuitBreaker":{"failures":1,"recovery":"200ms"}`,
	`"mode":"Shadow","timeouts":{"total":"300ms","attempt":"100ms","bodyIdle":"50ms"},"retry":{"maxAttempts":3},"circuitBreaker":{"failures":1}`,
}

// Settled fails the test unless what was told of calls fits together, now that all of
// them are over: each that started is done and has its attempts, each attempt one body
// at most (that of a redirect is one too), and no timer runs.
func Settled(t testing.TB, events *Events, timers *clienttest.Timers) {
	t.Helper()
	calls, attempts := events.Calls(), 0
	for i := range calls {
		attempts += calls[i].Attempts
	}
	if n := events.Started(); n != len(calls) {
		t.Errorf("%d calls were told of as started, %d as done", n, len(calls))
	}
	if n := len(events.Attempts()); n != attempts {
		t.Errorf("the calls told of %d attempts, and of %d one by one", attempts, n)
	}
	if n := len(events.Bodies()); n > attempts {
		t.Errorf("%d bodies were told of, of %d attempts", n, attempts)
	}
	if n := timers.Live(); n != 0 {
		t.Errorf("%d timers are running", n)
	}
}

// Breaches returns what is wrong with an error of the engine, as it reaches its caller:
// it is a timeout to everybody or to nobody, and a cancellation to its caller only.
func Breaches(err error) []string {
	var e *failure.Error
	if !errors.As(err, &e) {
		return []string{fmt.Sprintf("the error %v (%T) is not a *failure.Error too", err, err)}
	}
	var found []string
	note := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("the %v error %v (%T) ", e.Kind, err, err)+fmt.Sprintf(format, args...))
	}
	timedOut := e.Kind.Timeout()
	if errors.Is(err, context.DeadlineExceeded) != timedOut {
		note("is a context.DeadlineExceeded: %t", !timedOut)
	}
	var asks interface{ Timeout() bool }
	if timedOut && (!errors.As(err, &asks) || !asks.Timeout()) {
		note("does not say that it is a timeout")
	}
	if e.Kind != failure.Cancelled && errors.Is(err, context.Canceled) {
		note("is a context.Canceled")
	}
	return found
}
