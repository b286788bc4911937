package engine

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// NoStatus is the Status of an outcome without a response.
const NoStatus = -1

// Outcome is what came of an attempt, as its adapter classified it.
type Outcome struct {
	// OK says that the attempt succeeded; Kind then means nothing.
	OK   bool
	Kind failure.Kind
	// Covers are finer kinds that it may have been, for all that the adapter can
	// tell (capability.Record.Covered): what the policy says of them holds too.
	Covers failure.Set
	// Status is the HTTP status or gRPC code of the response, NoStatus for none.
	Status int
	// RetryStatus says that the policy lists the status as retryable.
	RetryStatus bool
	// ServerFault says that the status blames the peer (HTTP 5xx).
	ServerFault bool
	// RetryAfter is how long the peer asks to wait; 0 for not at all.
	RetryAfter time.Duration
	// Repeatable says that method, header or call site allow a repetition.
	Repeatable bool
	// Replayable says that the request body can be sent again.
	Replayable bool
}

// in reports whether the kind of the outcome is, or may have been, one of a set.
func (o *Outcome) in(s failure.Set) bool {
	return s.Has(o.Kind) || s&o.Covers != 0 && !failure.NeverRetryable.Has(o.Kind)
}

// Decision is what follows an attempt.
type Decision struct {
	// Retry says that another attempt follows after Wait.
	Retry bool
	Wait  time.Duration
	// Skip says why not, where the outcome asked for one.
	Skip failure.SkipReason
}

// Decide says whether another attempt follows, and tells the observers. A retry
// takes its token from the retry budget here; Settle gives it back when the
// attempt was never sent.
func (c *Call) Decide(o Outcome) Decision {
	now := c.elapsed()
	c.decided = now
	d := c.decide(o, now)
	if d.Retry && c.Policy.Shadow {
		c.WouldCut("retry")
		d = Decision{}
	}
	c.publishAttempt(o, d, now)
	return d
}

func (c *Call) publishAttempt(o Outcome, d Decision, now time.Duration) {
	if len(c.home.recorders) == 0 && c.tracing == nil {
		return
	}
	event := AttemptEvent{
		Adapter:  c.adapter,
		Method:   c.method,
		Route:    c.route(),
		Number:   int(c.sent),
		Started:  c.began,
		Duration: now - c.began,
		OK:       o.OK,
		Kind:     o.Kind,
		Status:   o.Status,
		Left:     c.left(now),
		Retried:  d.Retry,
		Wait:     d.Wait,
		Skip:     d.Skip,
	}
	for _, r := range c.home.recorders {
		r.AttemptDone(event)
	}
	if c.tracing != nil {
		c.tracing.trace.AttemptDone(event)
	}
}

func (c *Call) decide(o Outcome, now time.Duration) Decision {
	p := c.Policy
	if o.OK || p.MaxAttempts <= 1 || !(o.in(p.RetryKinds) || o.Kind == failure.Status && o.RetryStatus) {
		return Decision{}
	}
	if int(c.attempts) >= p.MaxAttempts {
		return Decision{Skip: failure.SkipAttempts}
	}
	if !o.Repeatable && o.Kind != failure.Unprocessed {
		return Decision{Skip: failure.SkipMethod}
	}
	if !o.Replayable {
		return Decision{Skip: failure.SkipNonReplayable}
	}
	wait := p.Backoff.Delay(int(c.attempts), c.engine.random())
	if o.RetryAfter > 0 && p.RetryAfterMax >= 0 {
		wait = max(wait, min(o.RetryAfter, p.RetryAfterMax))
	}
	// The next attempt has to begin before the end, not at it.
	if _, lapsed := c.lapsed(now + wait); lapsed {
		return Decision{Skip: failure.SkipDeadline}
	}
	if home := c.home; home.hasBudget && !p.Shadow {
		if !home.state.budget.withdraw(home.budget) {
			return Decision{Skip: failure.SkipBudget}
		}
		c.token = true
	}
	return Decision{Retry: true, Wait: wait}
}

// WouldCut tells the observers in mode Shadow what would have been done.
func (c *Call) WouldCut(limit string) {
	for _, r := range c.home.recorders {
		r.WouldCut(limit)
	}
}
