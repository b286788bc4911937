package adaptertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var limitScenarios = []scenario{
	{"a hung server is asked again until the total ends",
		[]capability.Name{capability.TimeoutTotal, capability.TimeoutAttempt, capability.RetryOwned}, []Feature{Waits}, hungUntilTotal},
	{"with a long total the last ceiling ends the call",
		[]capability.Name{capability.TimeoutAttempt, capability.RetryOwned}, []Feature{Waits}, hungUntilCeiling},
	{"an answer within the limits is left alone",
		[]capability.Name{capability.TimeoutTotal}, []Feature{Waits}, inTime},
	{"scope Headers lets the body take its time",
		[]capability.Name{capability.TimeoutTotal, capability.DeadlineCoversBody}, []Feature{Drips}, bodyBeyondTotal("Headers", Drips)},
	{"a stream is not cut unless the policy says so",
		[]capability.Name{capability.TimeoutTotal, capability.DeadlineCoversBody}, []Feature{Streams}, bodyBeyondTotal("", Streams)},
	{"an explicit scope Body cuts a stream",
		[]capability.Name{capability.TimeoutTotal, capability.DeadlineCoversBody}, []Feature{Streams}, cutStream},
	{"the ceiling of an attempt ends with its headers",
		[]capability.Name{capability.TimeoutAttempt, capability.DeadlineCoversBody}, []Feature{Drips}, bodyBeyondAttempt},
	{"a body that goes on is not idle, however long it takes",
		[]capability.Name{capability.TimeoutBodyIdle}, []Feature{Drips}, steadyBody},
	{"a body that falls silent in its middle is cut",
		[]capability.Name{capability.TimeoutBodyIdle}, []Feature{Stops}, silentInTheMiddle},
	{"a body that breaks off is an error, is told of, and is not asked for again",
		[]capability.Name{capability.DeadlineCoversBody, capability.RetryOwned}, []Feature{Cuts}, brokenBody},
}

// The third attempt is clamped to what is left. A machine that is busy may not
// get to it.
func hungUntilTotal(l *lab) {
	const total, attempt = time.Second, 400 * time.Millisecond
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s","attempt":"%s"},%s`, total, attempt, tries(3)), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	if o.kind == failure.AttemptTimeout && b.skip() == failure.SkipDeadline {
		l.t.Logf("too busy to see the total end the last attempt: %s", o)
		return
	}
	if o.kind != failure.TotalTimeout || o.failure == nil || o.failure.Field != "timeouts.total" || o.elapsed < total {
		l.findf("the call ended with %s, want TotalTimeout by timeouts.total after %s", o, total)
		return
	}
	if n := b.requests(); n < 2 || n > 3 || n != o.failure.Attempts {
		l.findf("%d requests reached the server, and the error says %d; want 3", n, o.failure.Attempts)
	}
	for _, a := range b.events.Attempts()[:1] {
		if a.Kind != failure.AttemptTimeout || !a.Retried || a.Duration < attempt {
			l.findf("the first attempt is told of as %v after %s, retried %t", a.Kind, a.Duration, a.Retried)
		}
	}
}

func hungUntilCeiling(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"30s","attempt":"%s"},%s`, ample, tries(3)), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.AttemptTimeout, field: "timeouts.attempt", skip: failure.SkipAttempts, requests: 3})
	if least := 3*ample + 3*time.Millisecond; o.elapsed < least {
		l.findf("%s, before three ceilings and two waits had passed (%s)", o, least)
	}
}

func inTime(l *lab) {
	b := l.open(unlimited, Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: limit}, Body: "question"})
	b.expect(o, want{ok: true, requests: 1})
	if o.Body != "question" {
		l.findf("the answer is %q", o.Body)
	}
}

// bodyBeyondTotal reads a body that takes longer than the total.
func bodyBeyondTotal(scope string, does Feature) func(*lab) {
	return func(l *lab) {
		const total = ample
		rules := fmt.Sprintf(`"timeouts":{"total":"%s"}`, total)
		if scope != "" {
			rules = fmt.Sprintf(`"timeouts":{"total":"%s","scope":%q}`, total, scope)
		}
		b := l.open(rules, Setup{})
		o := b.do(Call{Behaviour: Behaviour{Does: does, Pieces: 5, Every: total / 4}})
		b.expect(o, want{ok: true, requests: 1})
		if o.Body != strings.Repeat("x", 5) {
			l.findf("the body is %q, want five pieces", o.Body)
		}
	}
}

func cutStream(l *lab) {
	const total = ample
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s","scope":"Body"}`, total), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Streams, Pieces: int(l.a.hold / (total / 4)), Every: total / 4}})
	b.expect(o, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 1})
	if o.elapsed < total {
		l.findf("%s, before the total had passed", o)
	}
}

func bodyBeyondAttempt(l *lab) {
	const attempt = ample
	b := l.open(fmt.Sprintf(`"timeouts":{"attempt":"%s"}`, attempt), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Drips, Pieces: 5, Every: attempt / 4}})
	b.expect(o, want{ok: true, requests: 1})
}

// steadyBody reads a body of which every piece comes in time. On a machine that is
// busy one may be late, though not again and again.
func steadyBody(l *lab) {
	read := func() (*bench, *outcome) {
		b := l.open(fmt.Sprintf(`"timeouts":{"bodyIdle":"%s"}`, 2*ample), Setup{})
		return b, b.do(Call{Behaviour: Behaviour{Does: Drips, Pieces: 5, Every: ample / 2}})
	}
	b, o := read()
	for tries := 1; !o.ok && tries < 3; tries++ {
		b, o = read()
	}
	b.expect(o, want{ok: true, requests: 1})
	if o.Body != strings.Repeat("x", 5) {
		l.findf("the body is %q, want five pieces", o.Body)
	}
}

func silentInTheMiddle(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"bodyIdle":"%s"}`, ample), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Stops, Pieces: 3, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.ReadTimeout, field: "timeouts.bodyIdle", requests: 1})
	if o.Body != "xxx" || o.elapsed < ample {
		l.findf("%s with the body %q, want the three pieces that came before %s of silence", o, o.Body, ample)
	}
}

// A repetition would have its caller read the beginning of the body twice.
func brokenBody(l *lab) {
	brokenBodyOver(l, Setup{})
	if _, lacks := l.a.lacking([]Feature{OverHTTP2}); !lacks && l.a.Record.Level(capability.HTTP2) != capability.Absent {
		brokenBodyOver(l, Setup{HTTP2: true})
	}
}

func brokenBodyOver(l *lab, s Setup) {
	b := l.open(unlimited+","+tries(3), s)
	o := b.do(Call{Behaviour: Behaviour{Does: Cuts}})
	if n := b.requests(); n != 1 {
		l.findf("%d requests reached the server, want 1: after the headers there is no other attempt", n)
	}
	if o.ok || o.failure == nil {
		l.findf("the call ended with %s, want an error: half of the body is missing", o)
		return
	}
	if o.Body == "" {
		l.findf("%s, without the part of the body that came", o)
	}
	calls, bodies := b.events.Calls(), b.events.Bodies()
	if len(calls) != 1 || !calls[0].OK || len(bodies) != 1 || bodies[0].OK || bodies[0].Kind != o.kind {
		l.findf("it is told of as calls %+v and bodies %+v, want a call that succeeded, by its headers, and a body that failed with %v", calls, bodies, o.kind)
	}
}
