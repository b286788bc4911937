package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// breakerLimits are the limits of a circuit breaker, read from the policy in
// hand, so that a reload changes them without losing the state.
type breakerLimits struct {
	failures int
	recovery time.Duration
	halfOpen int
	trip     failure.Set
}

// CircuitState is the state of a circuit breaker.
type CircuitState uint8

// The states; the numbers are the value of the metric circuit_state.
const (
	CircuitClosed CircuitState = iota
	CircuitHalfOpen
	CircuitOpened
)

// String returns "closed", "half-open" or "open".
func (s CircuitState) String() string {
	switch s {
	case CircuitHalfOpen:
		return "half-open"
	case CircuitOpened:
		return "open"
	default:
		return "closed"
	}
}

// breaker opens after a number of calls failed in a row. Open, it refuses calls
// until recovery has passed; then, half-open, it lets a number of probes
// through at a time: one success closes it, one failure opens it for another
// full recovery. The zero value is closed.
//
// A call in the usual case (closed, nothing failed lately) costs one atomic
// load when it begins and one when it ends; everything else takes the lock.
type breaker struct {
	// glance is what the fast path reads: era<<1, plus 1 when the lock has to
	// be taken. It is written under the lock.
	glance atomic.Uint32

	mu       sync.Mutex
	state    CircuitState
	failures int
	// era counts transitions; the signal of a call that was admitted in another
	// era is out of date and dropped.
	era    uint32
	since  time.Time // when the state began; half-open: when the probes began
	probes int
}

// admission is the breaker's part of a call, to be handed back at its end.
type admission struct {
	era   uint32
	probe bool
	// first says that this call made the open circuit half-open.
	first bool
}

// signal is what a call tells the breaker when it ends.
type signal uint8

const (
	// signalNeutral says nothing of the peer; a probe gives its slot back.
	signalNeutral signal = iota
	signalSuccess
	signalFailure
)

// pass admits a call in the usual case.
func (b *breaker) pass() (admission, bool) {
	glance := b.glance.Load()
	return admission{era: glance >> 1}, glance&1 == 0
}

// settled reports whether a call may end without a word, as in the usual case.
func (b *breaker) settled(a admission, s signal) bool {
	return s != signalFailure && b.glance.Load() == a.era<<1
}

// admit asks for a call. Where it is refused, the duration is how long the
// circuit stays open.
func (b *breaker) admit(l breakerLimits, now time.Time) (admission, time.Duration, bool) {
	if a, ok := b.pass(); ok {
		return a, 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == CircuitClosed {
		return admission{era: b.era}, 0, true
	}
	opens := false
	if b.state == CircuitOpened || b.probes >= l.halfOpen {
		if wait := l.recovery - now.Sub(b.since); wait > 0 {
			return admission{}, wait, false
		}
		// From half-open too: probes that never ended would otherwise keep the
		// circuit there for ever.
		opens = b.state == CircuitOpened
		b.enter(CircuitHalfOpen, now)
	}
	b.probes++
	return admission{era: b.era, probe: true, first: opens}, 0, true
}

// report ends a call. It returns the state after it, and whether it changed.
func (b *breaker) report(l breakerLimits, a admission, s signal, now time.Time) (CircuitState, bool) {
	if b.settled(a, s) {
		return CircuitClosed, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.era != b.era {
		return b.state, false
	}
	before := b.state
	switch {
	case s == signalFailure && a.probe:
		b.enter(CircuitOpened, now)
	case s == signalFailure:
		b.failures++
		if b.failures >= l.failures {
			b.enter(CircuitOpened, now)
		}
	case s == signalSuccess && a.probe:
		b.enter(CircuitClosed, now)
	case s == signalSuccess:
		b.failures = 0
	case a.probe:
		b.probes--
	}
	b.publish()
	return b.state, b.state != before
}

func (b *breaker) enter(s CircuitState, now time.Time) {
	b.state, b.since = s, now
	b.era = (b.era + 1) &^ (1 << 31)
	b.failures, b.probes = 0, 0
	b.publish()
}

func (b *breaker) publish() {
	glance := b.era << 1
	if b.state != CircuitClosed || b.failures > 0 {
		glance |= 1
	}
	b.glance.Store(glance)
}

// current returns the state as the last event left it: an open circuit whose
// recovery has passed is open until a call asks.
func (b *breaker) current() CircuitState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}
