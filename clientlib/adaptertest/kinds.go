package adaptertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// provocation is a way to make an attempt end with a kind.
type provocation struct {
	needs []Feature
	run   func(l *lab) *outcome
}

func kindChecks() []check {
	checks := make([]check, 0, failure.Count)
	for _, kind := range failure.All() {
		checks = append(checks, check{"kind " + kind.String(), func(t testing.TB, a *Adapter) []string {
			return findKind(t, a, kind)
		}})
	}
	return checks
}

// findKind holds what the provocations of a kind end with to the record.
func findKind(t testing.TB, a *Adapter, kind failure.Kind) []string {
	t.Helper()
	return study(t, a, func(l *lab) {
		var seen []string
		ended := failure.Set(0)
		for _, p := range provocations[kind] {
			if feature, lacks := a.lacking(p.needs); lacks {
				t.Logf("a %v cannot be provoked without %s: %s", kind, feature, a.Lacks[feature])
				continue
			}
			o := p.run(l)
			seen = append(seen, o.String())
			if !o.ok {
				ended |= failure.NewSet(o.kind)
			}
		}
		all := strings.Join(seen, "; ")
		coarser, collapses := a.Record.Collapse[kind]
		switch emits := a.Record.Emits.Has(kind); {
		case len(seen) == 0 && (emits || collapses):
			l.findf("the record emits %v or has it collapse, and the peer lacks what provokes it", kind)
		case emits && !ended.Has(kind):
			l.findf("the record emits %v, and what provokes it ended with: %s", kind, all)
		case !emits && ended.Has(kind):
			l.findf("the record does not emit %v, and what provokes it ended with: %s", kind, all)
		case collapses && !ended.Has(coarser):
			l.findf("the record has %v collapse into %v, and what provokes it ended with: %s", kind, coarser, all)
		case collapses:
			l.servesTheFiner(kind, coarser)
		}
	})
}

// servesTheFiner holds an adapter to what a collapse promises: a policy that lists
// the finer kind alone is served by the coarser one.
func (l *lab) servesTheFiner(finer, coarser failure.Kind) {
	if failure.NeverRetryable.Has(finer) || failure.NeverRetryable.Has(coarser) {
		return
	}
	l.also = fmt.Sprintf(`,"retry":{"maxAttempts":2,"retryableKinds":["%v"],"backoff":{"initial":"1ms"}}`, finer)
	defer func() { l.also = "" }()
	for _, p := range provocations[finer] {
		if _, lacks := l.a.lacking(p.needs); lacks {
			continue
		}
		o := p.run(l)
		if o.failure != nil && o.kind == coarser && o.failure.Attempts == 1 {
			l.findf("the record has %v collapse into %v, and a policy that lists %v did not repeat it: set Outcome.Covers", finer, coarser, finer)
		}
	}
}

// provoke is a provocation by one call under one rule.
func provoke(rules string, does Feature, needs ...Feature) provocation {
	return provocation{append(needs, does), func(l *lab) *outcome {
		setup := Setup{}
		for _, f := range needs {
			setup.HTTP2 = setup.HTTP2 || f == OverHTTP2
		}
		return l.open(rules, setup).do(Call{Behaviour: Behaviour{Does: does, Delay: l.a.hold, Pieces: 1, Every: l.a.hold}})
	}}
}

var short = limit.String()

// provocations by kind. A library that tells a kind apart by a limit of its own
// has that limit set by its peer.
var provocations = map[failure.Kind][]provocation{
	failure.Unknown:        {provoke(unlimited, Odd)},
	failure.ConnectTimeout: {provoke(`"timeouts":{"connect":"`+short+`","attempt":"2s"}`, Stalls)},
	failure.ConnectError:   {provoke(unlimited, Unreachable)},
	failure.DNSError:       {provoke(unlimited, Unnamed)},
	failure.TLSError:       {provoke(unlimited, Untrusted)},
	failure.PoolTimeout:    {{[]Feature{BoundedPool, Waits}, queue}},
	failure.AttemptTimeout: {provoke(`"timeouts":{"attempt":"`+short+`"}`, Waits)},
	failure.ReadTimeout: {
		provoke(`"timeouts":{"responseHeader":"`+short+`","attempt":"1s"}`, Waits),
		provoke(`"timeouts":{"bodyIdle":"`+short+`"}`, Drips),
	},
	failure.WriteTimeout:  {provoke(`"timeouts":{"attempt":"500ms"}`, Unread)},
	failure.TotalTimeout:  {provoke(`"timeouts":{"total":"`+short+`"}`, Waits)},
	failure.Disconnected:  {provoke(unlimited, Resets), provoke(unlimited, Cuts)},
	failure.Unprocessed:   {{[]Feature{OverHTTP2, Declines}, decline}},
	failure.ProtocolError: {provoke(unlimited, Garbles)},
	failure.BodyError:     {provoke(unlimited, BadBody)},
	failure.Status:        {provoke(unlimited, Fails)},
	failure.Cancelled:     {{[]Feature{CallerContext, Waits}, leave}},
	failure.CircuitOpen:   {{[]Feature{Fails}, trip}},
}

// queue waits for a connection that another call has.
func queue(l *lab) *outcome {
	const connect = 300 * time.Millisecond
	b := l.open(fmt.Sprintf(`"timeouts":{"connect":"%s","attempt":"30s"}`, connect), Setup{Connections: 1})
	first := make(chan *outcome, 1)
	go func() { first <- b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: 3 * connect}}) }()
	defer func() { <-first }()
	if !eventually(patience, func() bool { return b.requests() == 1 }) {
		l.findf("the call that takes the only connection never reached the server")
	}
	return b.do(Call{})
}

// decline sends what the library cannot send again by itself, where there is such
// a thing: else the library gives up after a while.
func decline(l *lab) *outcome {
	_, lacksOpaque := l.a.lacking([]Feature{OpaqueBodies})
	b := l.open(unlimited, Setup{HTTP2: true})
	return b.do(Call{Behaviour: Behaviour{Does: Declines}, Body: "payload", Opaque: !lacksOpaque})
}

// leave ends a call as its caller.
func leave(l *lab) *outcome {
	b := l.open(unlimited, Setup{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		eventually(patience, func() bool { return b.requests() == 1 })
		cancel()
	}()
	return b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
}

// trip opens the circuit and asks again.
func trip(l *lab) *outcome {
	b := l.open(`"circuitBreaker":{"failures":1,"recovery":"1h"}`, Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	return b.do(Call{})
}
