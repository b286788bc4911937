package adaptertest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// tries is a retry rule with short waits of a known length: 1ms, 2ms, 4ms….
func tries(n int) string {
	return fmt.Sprintf(`"retry":{"maxAttempts":%d,"backoff":{"initial":"1ms","jitter":"None"}}`, n)
}

// unlimited is a rule that limits nothing, for calls that the engine is to see
// and leave alone.
const unlimited = `"timeouts":{"total":"60s"}`

// ownsRetries counts requests where the policy asks for repetitions, and where
// it does not.
func ownsRetries(l *lab, _ time.Duration) sight {
	b := l.open(tries(3), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	told := len(b.events.Attempts())
	if b.requests() != 3 || told != 3 {
		return sawf(missing, "%d requests where 3 were asked for, %d of them told of", b.requests(), told)
	}
	var more []string
	for _, c := range []struct {
		does  Feature
		calls int
	}{{Fails, 1}, {Resets, 1}, {Forgets, 2}, {Declines, 1}} {
		needs := []Feature{c.does}
		if c.does == Declines {
			needs = append(needs, OverHTTP2)
		}
		if _, lacks := l.a.lacking(needs); lacks {
			continue
		}
		b := l.open(unlimited, Setup{HTTP2: c.does == Declines})
		for range c.calls {
			b.do(Call{Behaviour: Behaviour{Does: c.does, Times: c.calls}})
		}
		if n := b.requests(); n > c.calls {
			more = append(more, fmt.Sprintf("%d requests of %d calls to a server that %s", n, c.calls, c.does))
		}
	}
	if len(more) > 0 {
		return sawf(partial, "repetitions that nobody asked for: %s", strings.Join(more, ", "))
	}
	return sawf(full, "no request but those of the engine")
}

func replaysBody(l *lab, _ time.Duration) sight {
	_, lacksOpaque := l.a.lacking([]Feature{OpaqueBodies})
	const body = "payload of a request"
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 2}, Body: body, Opaque: !lacksOpaque})
	whole := 0
	for _, s := range b.peer.Seen() {
		if s.Body == body {
			whole++
		}
	}
	switch {
	case b.requests() == 1 && b.skip() == failure.SkipNonReplayable:
		return sawf(missing, "%s after one request", o)
	case !o.ok || o.Body != body || b.requests() != 3 || whole != 3:
		return sawf(astray, "%s and the answer %q after %d requests, %d of them with the whole body", o, o.Body, b.requests(), whole)
	default:
		return sawf(full, "three requests with the whole body")
	}
}

func keepsRetryBudget(l *lab, _ time.Duration) sight {
	b := l.open(`"retry":{"maxAttempts":2,"backoff":{"initial":"1ms","jitter":"None"},"budget":{"percent":0,"burst":1}}`, Setup{})
	for range 2 {
		b.do(Call{Behaviour: Behaviour{Does: Fails}})
	}
	switch n := b.requests(); {
	case n == 3 && b.skip() == failure.SkipBudget:
		return sawf(full, "one repetition for one token")
	case n == 4:
		return sawf(missing, "two repetitions for one token")
	default:
		return sawf(astray, "%d requests, and the last call was not repeated for %q", n, b.skip())
	}
}

func breaksCircuit(l *lab, _ time.Duration) sight {
	b := l.open(`"circuitBreaker":{"failures":2,"recovery":"1h"}`, Setup{})
	for range 2 {
		b.do(Call{Behaviour: Behaviour{Does: Fails}})
	}
	o := b.do(Call{Behaviour: Behaviour{Does: Answers}})
	switch {
	case o.ok:
		return sawf(missing, "%s after two failures", o)
	case o.kind != failure.CircuitOpen || o.failure == nil || o.failure.RetryAfter <= 0 || o.failure.Attempts != 0 || b.requests() != 2:
		return sawf(astray, "%s after %d requests", o, b.requests())
	default:
		return sawf(full, "%s", o)
	}
}

// takesOptions looks at each option that a call site has.
func takesOptions(l *lab, hold time.Duration) sight {
	fails := Behaviour{Does: Fails, Times: 1}
	var works, fails2 []string
	note := func(what string, ok bool) {
		if ok {
			works = append(works, what)
			return
		}
		fails2 = append(fails2, what)
	}
	b := l.open(tries(2), Setup{})
	b.do(Call{Behaviour: fails, Options: []clientlib.CallOption{clientlib.Idempotent(false)}})
	note("Idempotent(false)", b.requests() == 1 && b.skip() == failure.SkipMethod)

	b = l.open(tries(2), Setup{})
	b.do(Call{Options: []clientlib.CallOption{clientlib.Route("/orders/{id}")}})
	calls := b.events.Calls()
	note("Route", len(calls) == 1 && calls[0].Route == "/orders/{id}")

	if _, lacks := l.a.lacking([]Feature{CallsOnce}); !lacks {
		b = l.open(tries(2), Setup{})
		o := b.do(Call{Behaviour: fails, Once: true, Options: []clientlib.CallOption{clientlib.Idempotent(true)}})
		note("Idempotent(true)", o.ok && b.requests() == 2)
	}
	if _, lacks := l.a.lacking([]Feature{Waits}); !lacks {
		b = l.open(unlimited, Setup{})
		o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: hold}, Options: []clientlib.CallOption{clientlib.Cap(limit)}})
		note("Cap", o.kind == failure.TotalTimeout && o.failure != nil && o.failure.Source == failure.SourceCaller && o.elapsed >= limit)
	}
	switch {
	case len(works) == 0:
		return sawf(missing, "no option has an effect")
	case len(fails2) > 0:
		return sawf(partial, "%q work, %q have no effect", works, fails2)
	default:
		return sawf(full, "%q work", works)
	}
}

// limitsSharedConnection cuts one of two calls that share a connection.
func limitsSharedConnection(l *lab, hold time.Duration) sight {
	const attempt = 2 * ample
	b := l.open(fmt.Sprintf(`"timeouts":{"attempt":"%s"}`, attempt), Setup{HTTP2: true})
	b.do(Call{}) // opens the connection
	var other *outcome
	var calls sync.WaitGroup
	calls.Go(func() {
		other = b.do(Call{Behaviour: Behaviour{Does: Drips, Pieces: 20, Every: attempt / 10}})
	})
	cut := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: attempt + hold}})
	calls.Wait()
	connections := map[int]bool{}
	for _, s := range b.peer.Seen() {
		connections[s.Connection] = true
	}
	switch {
	case len(connections) != 1:
		return sawf(missing, "%d connections for calls that could have shared one", len(connections))
	case !other.ok || len(other.Body) != 20:
		return sawf(partial, "one call ended with %s, and the other one on its connection with %s", cut, other)
	default:
		return sawLimit(cut, failure.AttemptTimeout, "timeouts.attempt", attempt)
	}
}
