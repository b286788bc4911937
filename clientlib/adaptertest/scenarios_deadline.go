package adaptertest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var deadlineScenarios = []scenario{
	{"what is left gets less with each attempt, and is never nothing",
		[]capability.Name{capability.DeadlineHeader, capability.TimeoutTotal, capability.RetryOwned}, []Feature{Fails}, leftGetsLess},
	{"the header that the policy names says what is left, in place of what the caller passes on",
		[]capability.Name{capability.DeadlineHeader, capability.TimeoutTotal, capability.RetryOwned}, []Feature{Fails}, namedHeader},
	{"what is kept back is kept back once",
		[]capability.Name{capability.DeadlineHeader, capability.TimeoutTotal}, nil, keepsReserve},
	{"a budget that the reserve uses up costs no request",
		[]capability.Name{capability.DeadlineHeader, capability.TimeoutTotal}, []Feature{AmbientBudget}, reserveIsAll},
}

// A protocol that carries the deadline itself tells that of the attempt: none is
// limited here.
func leftGetsLess(l *lab) {
	retry := fmt.Sprintf(`"retry":{"maxAttempts":3,"backoff":{"initial":"%s","max":"%s","jitter":"None"}}`, limit, limit)
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"10s"},"deadline":{"header":%q},%s`, DeadlineHeader, retry), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails}})
	last := 10*time.Second + limit
	for _, s := range b.peer.Seen() {
		if s.Deadline < time.Millisecond || s.Deadline > last-limit {
			l.findf("a request says that %s are left, where the one before it said %s", s.Deadline, last)
		}
		last = s.Deadline
	}
}

// aDay in milliseconds is what a request says that came from somewhere else.
const aDay = "86400000"

// namedHeader looks at the header itself, also where the protocol carries a deadline
// besides. The header is the engine's where the policy names it, and the caller's
// elsewhere.
func namedHeader(l *lab) {
	passed := aDay
	if _, lacks := l.a.lacking([]Feature{PassedOn}); lacks {
		passed = ""
	}
	const total = 10 * time.Second
	call := Call{Behaviour: Behaviour{Does: Fails, Times: 1}, PassedOn: passed}
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s"},"deadline":{"header":%q},%s`, total, DeadlineHeader, tries(2)), Setup{})
	b.do(call)
	for i, s := range b.peer.Seen() {
		left, err := strconv.ParseInt(s.Header, 10, 64)
		if err != nil || left < 1 || left > total.Milliseconds() {
			l.findf("request %d has %q in the header that the policy names, want what is left of %s in milliseconds", i+1, s.Header, total)
		}
	}
	if passed == "" {
		return
	}
	for _, rules := range []string{unlimited, fmt.Sprintf(`"mode":"Shadow",%s,"deadline":{"header":%q}`, unlimited, DeadlineHeader)} {
		b := l.open(rules, Setup{})
		b.do(Call{PassedOn: passed})
		for _, s := range b.peer.Seen() {
			if s.Header != passed {
				l.findf("under %s the caller's own header became %q", rules, s.Header)
			}
		}
	}
}

// keepsReserve has time enough left that even a slow machine can tell a reserve that
// was kept back once from one that was kept back twice or not at all.
func keepsReserve(l *lab) {
	const whole, reserve = 10 * time.Second, 4 * time.Second
	told := func(b *bench, limit string) {
		for _, s := range b.peer.Seen() {
			if s.Deadline > whole-reserve || s.Deadline <= whole-2*reserve {
				l.findf("of a %s of %s less %s a request says that %s are left", limit, whole, reserve, s.Deadline)
			}
		}
	}
	rules := `"timeouts":{"total":"%s"},"deadline":{"header":%q,"reserve":"%s"}`
	b := l.open(fmt.Sprintf(rules, whole, DeadlineHeader, reserve), Setup{})
	b.expect(b.do(Call{}), want{ok: true, requests: 1})
	told(b, "total")
	if _, lacks := l.a.lacking([]Feature{AmbientBudget}); lacks {
		return
	}
	b = l.open(fmt.Sprintf(rules, 6*whole, DeadlineHeader, reserve), Setup{})
	b.expect(b.doIn(deadline.With(context.Background(), whole), Call{}), want{ok: true, requests: 1})
	told(b, "budget")
}

func reserveIsAll(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"60s"},"deadline":{"header":%q,"reserve":"10s"}`, DeadlineHeader), Setup{})
	o := b.doIn(deadline.With(context.Background(), 5*time.Second), Call{})
	b.expect(o, want{kind: failure.TotalTimeout, source: failure.SourceBudget})
}
