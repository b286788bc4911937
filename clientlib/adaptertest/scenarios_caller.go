package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

var callerScenarios = []scenario{
	{"a caller that leaves is not waited for, repeated or l.a.hold against the server", nil, []Feature{CallerContext, Waits}, callerLeaves},
	{"a caller that leaves in the backoff is not waited for", retries, []Feature{CallerContext, Fails}, callerLeavesBackoff},
	{"the caller's own deadline is the caller's", nil, []Feature{CallerContext, Waits}, callerDeadline},
	{"a caller that has left already costs no request", nil, []Feature{CallerContext}, callerGone},
	{"the tighter of budget and total holds", []capability.Name{capability.TimeoutTotal}, []Feature{AmbientBudget, Waits}, budgetIsTighter},
	{"a budget that is spent costs no request", []capability.Name{capability.TimeoutTotal}, []Feature{AmbientBudget}, budgetIsSpent},
	{"a cap of the call site covers the body",
		[]capability.Name{capability.PerCallOptions, capability.DeadlineCoversBody}, []Feature{Drips}, capCoversBody},
	{"work that is detached has no budget", []capability.Name{capability.TimeoutTotal}, []Feature{AmbientBudget, Waits}, budgetIsDetached},
}

const oneFailureOpens = `"circuitBreaker":{"failures":1,"recovery":"1h"}`

var errShopCloses = errors.New("the shop is closing")

func callerLeaves(l *lab) {
	b := l.open(tries(3)+`,`+oneFailureOpens, Setup{})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		eventually(patience, func() bool { return b.requests() == 1 })
		cancel(errShopCloses)
	}()
	o := b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.Cancelled, source: failure.SourceCaller, requests: 1})
	if !errors.Is(o.Err, context.Canceled) || !errors.Is(o.Err, errShopCloses) {
		l.findf("the error %v is not the caller's: context.Canceled and its cause", o.Err)
	}
	b.neutral()
}

// neutral makes sure that the circuit did not count the call before.
func (b *bench) neutral() {
	if o := b.do(Call{}); !o.ok {
		b.findf("the call after it ended with %s: the one before it counted against the server", o)
	}
}

func callerLeavesBackoff(l *lab) {
	b := l.open(`"retry":{"maxAttempts":3,"backoff":{"initial":"1h","max":"1h","jitter":"None"}}`, Setup{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		eventually(patience, func() bool { return len(b.events.Attempts()) == 1 })
		cancel()
	}()
	o := b.doIn(ctx, Call{Behaviour: Behaviour{Does: Fails}})
	b.expect(o, want{kind: failure.Cancelled, source: failure.SourceCaller, requests: 1})
	if n := len(b.events.Attempts()); n != 1 {
		l.findf("%d attempts are told of, want the one before the caller left", n)
	}
}

func callerDeadline(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"},`+tries(3)+`,`+oneFailureOpens, Setup{})
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	o := b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	if o.kind != failure.TotalTimeout || o.failure == nil || o.failure.Source != failure.SourceCaller || o.elapsed < 2*limit {
		l.findf("the call ended with %s, want TotalTimeout of the caller after %s", o, 2*limit)
	}
	if n := b.requests(); n > 1 {
		l.findf("%d requests reached the server, want 1", n)
	}
	b.neutral()
}

func callerGone(l *lab) {
	b := l.open(tries(3), Setup{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := b.doIn(ctx, Call{})
	b.expect(o, want{kind: failure.Cancelled, source: failure.SourceCaller})
}

func budgetIsTighter(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"},`+oneFailureOpens, Setup{})
	o := b.doIn(deadline.With(context.Background(), 2*limit), Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	if o.kind != failure.TotalTimeout || o.failure == nil || o.failure.Source != failure.SourceBudget {
		l.findf("the call ended with %s, want TotalTimeout of the budget", o)
	}
	b.neutral()
	b = l.open(fmt.Sprintf(`"timeouts":{"total":"%s"}`, ample), Setup{})
	o = b.doIn(deadline.With(context.Background(), time.Minute), Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 1})
}

func budgetIsSpent(l *lab) {
	b := l.open(`"timeouts":{"total":"30s"}`, Setup{})
	o := b.doIn(deadline.With(context.Background(), 0), Call{})
	b.expect(o, want{kind: failure.TotalTimeout, source: failure.SourceBudget})
	if o.failure != nil && o.failure.Attempts != 0 {
		l.findf("the error says that %d requests were made", o.failure.Attempts)
	}
}

// capCoversBody reads a body that the policy would let take its time.
func capCoversBody(l *lab) {
	b := l.open(`"timeouts":{"total":"60s","scope":"Body"},`+oneFailureOpens, Setup{})
	pieces := int(l.a.hold / limit)
	o := b.do(Call{
		Behaviour: Behaviour{Does: Drips, Pieces: pieces, Every: limit},
		Options:   []clientlib.CallOption{clientlib.Cap(ample)},
	})
	b.expect(o, want{kind: failure.TotalTimeout, source: failure.SourceCaller, requests: 1})
	if o.elapsed < ample {
		l.findf("%s, before the cap of %s", o, ample)
	}
	b.neutral()
}

func budgetIsDetached(l *lab) {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s"}`, ample), Setup{})
	ctx := deadline.Detach(deadline.With(context.Background(), limit/2))
	o := b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: l.a.hold}})
	b.expect(o, want{kind: failure.TotalTimeout, field: "timeouts.total", requests: 1})
}
