package adaptertest

import (
	"fmt"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var retries = []capability.Name{capability.RetryOwned}

var retryScenarios = []scenario{
	{"a server that recovers is asked until it answers", retries, []Feature{Fails}, recovers},
	{"the last failure is the caller's", retries, []Feature{Fails}, neverRecovers},
	{"attempts are not capped in silence", retries, []Feature{Fails}, manyAttempts},
	{"without a retry rule nothing is repeated", nil, []Feature{Fails}, noRule},
	{"what the caller did wrong is not repeated", retries, []Feature{Refuses}, notRepeated(Refuses)},
	{"a fault that is not listed is not repeated", retries, []Feature{Breaks}, notRepeated(Breaks)},
	{"a broken connection is repeated", retries, []Feature{Resets}, brokenConnection},
	{"the wait that the server asks for is kept", retries, []Feature{Fails}, waitsAsAsked},
	{"a wait that the server asks for is cut by its bound", retries, []Feature{Fails}, boundedWait},
	{"a wait that the server asks for can be ignored", retries, []Feature{Fails}, ignoredWait},
	{"a wait beyond the deadline is not begun", []capability.Name{capability.RetryOwned, capability.TimeoutTotal}, []Feature{Fails}, waitBeyondDeadline},
	{"a backoff beyond the deadline is not begun", []capability.Name{capability.RetryOwned, capability.TimeoutTotal}, []Feature{Fails}, backoffBeyondDeadline},
	{"a call that may be made once is made once", retries, []Feature{CallsOnce, Fails}, onlyOnce},
	{"a key that the server knows lets any call be repeated", retries, []Feature{CallsOnce, IdempotencyKeys, Fails}, byKey},
	{"what the server did not act on is repeated whatever it is",
		[]capability.Name{capability.RetryOwned, capability.HTTP2}, []Feature{CallsOnce, Declines, OverHTTP2}, declinedOnce},
	{"calls fill the retry budget, each once, whatever its attempts",
		[]capability.Name{capability.RetryOwned, capability.RetryBudget}, []Feature{Fails}, budgetFills},
	{"a body too long to be kept is not sent twice", []capability.Name{capability.RetryOwned, capability.BodyReplay}, []Feature{OpaqueBodies, Fails}, bodyTooLong},
}

func recovers(l *lab) {
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 2}, Body: "question"})
	b.expect(o, want{ok: true, requests: 3})
	if o.Body != "question" || o.elapsed < 3*time.Millisecond {
		l.findf("%s with the answer %q, want that of the server after two waits of 1ms and 2ms", o, o.Body)
	}
	for i, a := range b.events.Attempts() {
		if last := i == 2; a.Number != i+1 || a.OK != last || a.Retried == last || !last && a.Kind != failure.Status {
			l.findf("attempt %d is told of as number %d, OK %t, %v, retried %t", i+1, a.Number, a.OK, a.Kind, a.Retried)
		}
	}
}

func neverRecovers(l *lab) {
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipAttempts, requests: 3})
}

func manyAttempts(l *lab) {
	b := l.open(`"retry":{"maxAttempts":8,"backoff":{"initial":"1ms","max":"1ms","jitter":"None"}}`, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipAttempts, requests: 8})
}

func noRule(l *lab) {
	b := l.open(unlimited, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Status, requests: 1})
}

func notRepeated(does Feature) func(*lab) {
	return func(l *lab) {
		b := l.open(tries(3), Setup{})
		o := b.do(Call{Behaviour: Behaviour{Does: does}})
		b.expect(o, want{kind: failure.Status, requests: 1})
	}
}

func brokenConnection(l *lab) {
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Resets}})
	if n := b.requests(); o.ok || n != 3 || len(b.events.Attempts()) != 3 {
		l.findf("the call ended with %s after %d requests, %d of them told of; want 3", o, n, len(b.events.Attempts()))
	}
}

// HTTP can ask for whole seconds only.
func waitsAsAsked(l *lab) {
	b := l.open(tries(2), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1, RetryAfter: time.Second}})
	b.expect(o, want{ok: true, requests: 2})
	if o.elapsed < time.Second {
		l.findf("%s, before the second that the server asked for had passed", o)
	}
}

func boundedWait(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"30s"},"retry":{"maxAttempts":2,"retryAfter":{"max":"%s"}}`, limit), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1, RetryAfter: time.Minute}})
	b.expect(o, want{ok: true, requests: 2})
	if o.elapsed < limit {
		l.findf("%s, before the bound of the wait had passed (%s)", o, limit)
	}
}

func ignoredWait(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"},"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"},"retryAfter":{"mode":"Ignore"}}`, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1, RetryAfter: time.Minute}})
	b.expect(o, want{ok: true, requests: 2})
}

func waitBeyondDeadline(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"},`+tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, RetryAfter: time.Minute}})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipDeadline, requests: 1})
}

func backoffBeyondDeadline(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"},"retry":{"maxAttempts":3,"backoff":{"initial":"40s","max":"40s","jitter":"None"}}`, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipDeadline, requests: 1})
}

func onlyOnce(l *lab) {
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}, Once: true, Body: "order"})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipMethod, requests: 1})
}

func byKey(l *lab) {
	b := l.open(tries(3), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1}, Once: true, Key: true, Body: "order"})
	b.expect(o, want{ok: true, requests: 2})
}

func declinedOnce(l *lab) {
	b := l.open(tries(2), Setup{HTTP2: true})
	o := b.do(Call{Behaviour: Behaviour{Does: Declines, Times: 1}, Once: true, Body: "order"})
	b.expect(o, want{ok: true, requests: 2})
}

// budgetFills has two calls pay for one repetition.
func budgetFills(l *lab) {
	b := l.open(`"retry":{"maxAttempts":2,"backoff":{"initial":"1ms","jitter":"None"},"budget":{"percent":50,"burst":1}}`, Setup{})
	sent := 0
	for i, c := range []struct {
		does     Feature
		requests int
	}{{Fails, 2}, {Fails, 1}, {Answers, 1}, {Fails, 2}} {
		before := b.requests()
		b.do(Call{Behaviour: Behaviour{Does: c.does}})
		if n := b.requests() - before; n != c.requests {
			l.findf("call %d (the server %s) made %d requests, want %d: a repetition takes a token, and a call brings half of one", i+1, c.does, n, c.requests)
		}
		sent += c.requests
	}
	if n := len(b.events.Attempts()); n != sent {
		l.findf("%d attempts are told of, want %d", n, sent)
	}
}

func bodyTooLong(l *lab) {
	b := l.open(`"retry":{"maxAttempts":3,"maxReplayBytes":4}`, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Fails}, Body: "longer than four", Opaque: true})
	b.expect(o, want{kind: failure.Status, skip: failure.SkipNonReplayable, requests: 1})
}
