package engine

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var someLimits = breakerLimits{failures: 3, recovery: 10 * time.Second, halfOpen: 1}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func mustAdmit(t *testing.T, b *breaker, l breakerLimits, now time.Time) admission {
	t.Helper()
	a, wait, ok := b.admit(l, now)
	if !ok {
		t.Fatalf("refused for %s in state %s", wait, b.current())
	}
	return a
}

// fail makes n calls that fail.
func fail(t *testing.T, b *breaker, l breakerLimits, now time.Time, n int) {
	t.Helper()
	for range n {
		b.report(l, mustAdmit(t, b, l, now), signalFailure, now)
	}
}

func expectState(t *testing.T, b *breaker, want CircuitState) {
	t.Helper()
	if got := b.current(); got != want {
		t.Errorf("state %s, want %s", got, want)
	}
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	var b breaker
	fail(t, &b, someLimits, noon, 2)
	b.report(someLimits, mustAdmit(t, &b, someLimits, noon), signalSuccess, noon)
	fail(t, &b, someLimits, noon, 2)
	expectState(t, &b, CircuitClosed)
	// A neutral call between does not count either way.
	b.report(someLimits, mustAdmit(t, &b, someLimits, noon), signalNeutral, noon)
	fail(t, &b, someLimits, noon, 1)
	expectState(t, &b, CircuitOpened)
}

func TestBreakerRefusesUntilRecoveryAndSaysHowLong(t *testing.T) {
	var b breaker
	fail(t, &b, someLimits, noon, 3)
	if _, wait, ok := b.admit(someLimits, noon.Add(4*time.Second)); ok || wait != 6*time.Second {
		t.Errorf("admitted %t, wait %s, want refused for 6s", ok, wait)
	}
	probe := mustAdmit(t, &b, someLimits, noon.Add(10*time.Second))
	if !probe.probe || !probe.first {
		t.Errorf("admission %+v is not the first probe", probe)
	}
	expectState(t, &b, CircuitHalfOpen)
	b.report(someLimits, probe, signalSuccess, noon.Add(11*time.Second))
	expectState(t, &b, CircuitClosed)
}

// T13 nandlabs/golly#215: a failing probe opens the circuit for a full period.
func TestAFailingProbeOpensForAFullRecovery(t *testing.T) {
	var b breaker
	fail(t, &b, someLimits, noon, 3)
	late := noon.Add(25 * time.Second)
	b.report(someLimits, mustAdmit(t, &b, someLimits, late), signalFailure, late.Add(time.Second))
	if _, wait, ok := b.admit(someLimits, late.Add(2*time.Second)); ok || wait != 9*time.Second {
		t.Errorf("admitted %t, wait %s, want refused for 9s more", ok, wait)
	}
}

// gobreaker#53 #63: how many probes go out at a time is not how many must
// succeed: one success closes.
func TestHalfOpenBoundsProbesAndOneSuccessCloses(t *testing.T) {
	l := someLimits
	l.halfOpen = 2
	var b breaker
	fail(t, &b, l, noon, 3)
	later := noon.Add(10 * time.Second)
	first, second := mustAdmit(t, &b, l, later), mustAdmit(t, &b, l, later)
	if second.first || !second.probe {
		t.Errorf("second admission %+v", second)
	}
	if _, _, ok := b.admit(l, later); ok {
		t.Error("a third probe went out")
	}
	b.report(l, second, signalSuccess, later)
	expectState(t, &b, CircuitClosed)
	// The other probe belongs to an era that is over.
	b.report(l, first, signalFailure, later)
	expectState(t, &b, CircuitClosed)
	if fail(t, &b, l, later, 2); b.current() != CircuitClosed {
		t.Error("the stale probe counted as a failure")
	}
}

// gobreaker#105 #107, apache/brpc#3532, tsouza/cerberus#738: a cancelled probe
// gives its slot back.
func TestANeutralProbeReleasesItsSlot(t *testing.T) {
	var b breaker
	fail(t, &b, someLimits, noon, 3)
	later := noon.Add(10 * time.Second)
	b.report(someLimits, mustAdmit(t, &b, someLimits, later), signalNeutral, later)
	expectState(t, &b, CircuitHalfOpen)
	again := mustAdmit(t, &b, someLimits, later)
	if again.first {
		t.Error("half-open was told twice")
	}
	b.report(someLimits, again, signalSuccess, later)
	expectState(t, &b, CircuitClosed)
}

// resilience4j#903: probes that never end do not hold the circuit half-open.
func TestProbesThatNeverEndTimeOut(t *testing.T) {
	var b breaker
	fail(t, &b, someLimits, noon, 3)
	first := noon.Add(10 * time.Second)
	lost := mustAdmit(t, &b, someLimits, first)
	if _, wait, ok := b.admit(someLimits, first.Add(9*time.Second)); ok || wait != time.Second {
		t.Errorf("admitted %t, wait %s", ok, wait)
	}
	second := mustAdmit(t, &b, someLimits, first.Add(10*time.Second))
	b.report(someLimits, lost, signalFailure, first.Add(11*time.Second))
	expectState(t, &b, CircuitHalfOpen)
	b.report(someLimits, second, signalSuccess, first.Add(11*time.Second))
	expectState(t, &b, CircuitClosed)
}

func TestSignalsOfAnotherEraAreDropped(t *testing.T) {
	var b breaker
	old := mustAdmit(t, &b, someLimits, noon)
	fail(t, &b, someLimits, noon, 3)
	for _, s := range []signal{signalSuccess, signalFailure, signalNeutral} {
		if state, changed := b.report(someLimits, old, s, noon); changed || state != CircuitOpened {
			t.Errorf("signal %d of a call from before moved the circuit to %s", s, state)
		}
	}
	later := noon.Add(10 * time.Second)
	b.report(someLimits, mustAdmit(t, &b, someLimits, later), signalSuccess, later)
	b.report(someLimits, old, signalFailure, later)
	if fail(t, &b, someLimits, later, 2); b.current() != CircuitClosed {
		t.Error("a failure from before the outage counted")
	}
}

func TestLimitsHoldAtOnce(t *testing.T) {
	var b breaker
	many := someLimits
	many.failures = 100
	fail(t, &b, many, noon, 50)
	expectState(t, &b, CircuitClosed)
	fail(t, &b, someLimits, noon, 1)
	expectState(t, &b, CircuitOpened)
	short := someLimits
	short.recovery = time.Second
	mustAdmit(t, &b, short, noon.Add(time.Second))
}

func TestTheEraWrapsAround(t *testing.T) {
	b := breaker{era: 1<<31 - 1}
	b.publish()
	fail(t, &b, someLimits, noon, 3)
	expectState(t, &b, CircuitOpened)
	later := noon.Add(10 * time.Second)
	b.report(someLimits, mustAdmit(t, &b, someLimits, later), signalSuccess, later)
	expectState(t, &b, CircuitClosed)
	mustAdmit(t, &b, someLimits, later)
}

// Random calls against a model: never more probes than allowed within one
// recovery, the glance agrees with the state, nobody is admitted while open.
func TestBreakerKeepsItsInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var b breaker
		l := breakerLimits{failures: 1 + random.IntN(3), recovery: time.Second, halfOpen: 1 + random.IntN(3)}
		var running []admission
		now := noon
		for range 200 {
			now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
			before, since := b.current(), b.since
			if random.IntN(2) == 0 {
				a, wait, ok := b.admit(l, now)
				if ok == (wait > 0) {
					t.Fatalf("admitted %t with a wait of %s", ok, wait)
				}
				if ok && before == CircuitOpened && now.Sub(since) < l.recovery {
					t.Fatal("admitted while open")
				}
				if ok {
					running = append(running, a)
				}
			} else if len(running) > 0 {
				i := random.IntN(len(running))
				b.report(l, running[i], signal(random.IntN(3)), now)
				running = append(running[:i], running[i+1:]...)
			}
			if b.probes < 0 || b.probes > l.halfOpen || b.failures >= l.failures && b.state == CircuitClosed {
				t.Fatalf("%+v under %+v", &b, l)
			}
			if easy := b.glance.Load()&1 == 0; easy != (b.state == CircuitClosed && b.failures == 0) || b.glance.Load()>>1 != b.era {
				t.Fatalf("the glance %b does not fit %+v", b.glance.Load(), &b)
			}
		}
	}
}

func TestBreakerUnderContention(t *testing.T) {
	var b breaker
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 5000 {
				now := noon.Add(time.Duration(i) * time.Second)
				if a, _, ok := b.admit(someLimits, now); ok {
					b.report(someLimits, a, signal((i+g)%3), now)
				}
			}
		})
	}
	all.Wait()
	later := noon.Add(24 * time.Hour)
	b.report(someLimits, mustAdmit(t, &b, someLimits, later), signalSuccess, later)
}
