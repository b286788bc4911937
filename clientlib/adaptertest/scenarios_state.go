package adaptertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var breakers = []capability.Name{capability.CircuitBreaker}

var stateScenarios = []scenario{
	{"a circuit closes again when the server has recovered", breakers, []Feature{Fails}, circuitRecovers},
	{"a probe that its caller leaves gives its place back", breakers, []Feature{CallerContext, Fails, Waits}, probeIsLeft},
	{"a panic that somebody recovers from ends its call", breakers, []Feature{Fails, Panics}, panicEnds},
	{"a call is one signal to the circuit, whatever its attempts", []capability.Name{capability.CircuitBreaker, capability.RetryOwned}, []Feature{Fails}, oneSignal},
	{"what the caller did wrong does not open the circuit", breakers, []Feature{Refuses}, callersFault},
	{"a fault of the server opens the circuit", breakers, []Feature{Breaks}, serversFault},
	{"a limit that passed opens the circuit", []capability.Name{capability.CircuitBreaker, capability.TimeoutTotal}, []Feature{Waits}, limitOpens},
	{"a policy that changes does not touch a call under way", []capability.Name{capability.TimeoutTotal}, []Feature{Waits}, swapUnderWay},
	{"the circuit survives a change of the policy", breakers, []Feature{Fails}, swapKeepsCircuit},
}

func circuitRecovers(l *lab) {
	const recovery = 2 * limit
	b := l.open(fmt.Sprintf(`"circuitBreaker":{"failures":1,"recovery":"%s"}`, recovery), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	var o *outcome
	if !eventually(patience, func() bool { o = b.do(Call{}); return o.ok }) {
		l.findf("the circuit did not close within %s: %s", patience, o)
	}
	b.do(Call{})
	states := []engine.CircuitState{engine.CircuitOpened, engine.CircuitHalfOpen, engine.CircuitClosed}
	if got := b.events.Circuits(); !slices.Equal(got, states) {
		l.findf("the circuit is told of as %v, want %v", got, states)
	}
	if n := b.requests(); n != 3 {
		l.findf("%d requests reached the server, want 3: an open circuit sends nothing", n)
	}
}

// probeIsLeft has the only probe of a circuit come to nothing that says anything of
// the server. The next call is the next probe, long before another recovery.
func probeIsLeft(l *lab) {
	b := l.open(fmt.Sprintf(`"circuitBreaker":{"failures":1,"recovery":"%s"}`, ample), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	probed := func() bool {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			eventually(patience, func() bool {
				select {
				case <-ended:
					return true
				default:
					return b.requests() == 2
				}
			})
			cancel()
		}()
		return b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}}).kind != failure.CircuitOpen
	}
	if !eventually(patience, probed) {
		l.findf("no probe was let through within %s", patience)
		return
	}
	if o := b.do(Call{}); !o.ok {
		l.findf("the call after a probe whose caller left ended with %s: it still has the place of the probe", o)
		return
	}
	states := []engine.CircuitState{engine.CircuitOpened, engine.CircuitHalfOpen, engine.CircuitClosed}
	if got := b.events.Circuits(); !slices.Equal(got, states) {
		l.findf("the circuit is told of as %v, want %v", got, states)
	}
}

// panicEnds has the only probe of a circuit panic: it is told of as done, leaves no
// timer, and its place is the next call's.
func panicEnds(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"60s","attempt":"30s"},"circuitBreaker":{"failures":1,"recovery":"%s"}`, ample), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	if !eventually(patience, func() bool { return b.panics() }) {
		l.findf("no call panicked within %s, though something in it did", patience)
		return
	}
	if o := b.do(Call{}); !o.ok {
		l.findf("the call after one that panicked ended with %s: that one still has the place of the probe", o)
	}
}

// panics makes a call in which something panics, and reports whether that came out.
func (b *bench) panics() (panicked bool) {
	defer func() {
		if recover() == nil {
			return
		}
		panicked = true
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, outcome{kind: failure.Unknown})
	}()
	b.do(Call{Behaviour: Behaviour{Does: Panics}})
	return false
}

func oneSignal(l *lab) {
	b := l.open(`"circuitBreaker":{"failures":2,"recovery":"1h"},`+tries(3), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.neutral()
}

func callersFault(l *lab) {
	b := l.open(oneFailureOpens, Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Refuses}})
	b.neutral()
}

func serversFault(l *lab) {
	b := l.open(oneFailureOpens, Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Breaks}})
	o := b.do(Call{})
	b.expect(o, want{kind: failure.CircuitOpen, requests: 1})
}

func limitOpens(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s"},`, ample)+oneFailureOpens, Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	o := b.do(Call{})
	b.expect(o, want{kind: failure.CircuitOpen, requests: 1})
}

func swapUnderWay(l *lab) {
	b := l.open(unlimited, Setup{})
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		eventually(patience, func() bool { return b.requests() == 1 })
		b.client.Engine().Swap(parse(l.t, fmt.Sprintf(`"timeouts":{"total":"%s"}`, ample)))
	}()
	first := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: 2 * ample}})
	<-swapped
	b.expect(first, want{ok: true, requests: 1})
	next := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(next, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 2})
}

func swapKeepsCircuit(l *lab) {
	b := l.open(oneFailureOpens, Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.client.Engine().Swap(parse(l.t, `"timeouts":{"total":"30s"},`+oneFailureOpens))
	o := b.do(Call{})
	b.expect(o, want{kind: failure.CircuitOpen, requests: 1})
}
