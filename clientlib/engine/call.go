package engine

import (
	"context"
	"errors"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Call is one logical call: its deadline, its attempts and what it owes the
// breaker and the observers. An adapter embeds it in its own per-call struct,
// calls Begin first, and calls Settle exactly once for each Begin that
// succeeded. Apart from Limits read by a Scope, it belongs to one goroutine at
// a time.
type Call struct {
	// Policy of the hop under way; never nil after Begin.
	Policy *Policy

	home     *Policy // of the first hop: whose breaker, budget and events
	engine   *Engine
	options  CallOptions
	adapter  string
	method   string
	start    time.Time
	end      time.Time // of the policy's total or the ambient budget; zero for none
	budget   time.Time // end of the ambient budget where it counts; zero for none
	caller   time.Time // deadline of the caller's context; zero for none
	attempts int       // of the hop under way
	sent     int       // requests of all hops
	began    time.Time // of the attempt under way
	decided  time.Time // when the last attempt had ended
	entry    admission
	token    bool // a retry token was taken for an attempt that is not sent yet
	tracing  *tracing
}

// Begin opens the call: it computes the deadline and asks the breaker. The
// method is for events only. An error is a *[failure.Error] and means that
// nothing may be sent and Settle must not be called.
func (c *Call) Begin(ctx context.Context, e *Engine, p *Policy, adapter, method string) error {
	c.engine, c.Policy, c.home, c.adapter, c.method = e, p, p, adapter, method
	c.options = CallOptionsFrom(ctx)
	c.start = e.clock.Now()
	c.computeEnd(ctx)
	for _, r := range p.recorders {
		r.CallStarted(adapter)
	}
	if err := c.refusal(ctx); err != nil {
		c.publish(Outcome{Kind: err.Kind, Status: NoStatus}, err.Source, failure.SkipNone, c.start)
		return err
	}
	if p.hasBudget {
		p.state.budget.deposit(p.budget)
	}
	return nil
}

func (c *Call) computeEnd(ctx context.Context) {
	p := c.Policy
	c.caller, _ = ctx.Deadline()
	if p.Shadow {
		return
	}
	if p.Total > 0 {
		c.end = c.start.Add(p.Total)
	}
	if p.IgnoreBudget {
		return
	}
	if end, ok := deadline.From(ctx); ok {
		c.budget = end.Add(-p.DeadlineReserve) // kept for the caller's own reply
	}
	if !c.budget.IsZero() && (c.end.IsZero() || c.budget.Before(c.end)) {
		c.end = c.budget
	}
}

// refusal says why the call must not begin.
func (c *Call) refusal(ctx context.Context) *failure.Error {
	if ctx.Err() != nil {
		out, attribution := CallerEnded(ctx)
		return c.failure(out, attribution, context.Cause(ctx))
	}
	if a, lapsed := c.Lapsed(c.start); lapsed {
		return c.failure(Outcome{Kind: failure.TotalTimeout}, a, nil)
	}
	p := c.Policy
	if !p.hasBreaker || p.Shadow {
		return nil
	}
	entry, wait, ok := p.state.breaker.admit(p.breaker, c.start)
	if !ok {
		err := c.failure(Outcome{Kind: failure.CircuitOpen}, Attribution{}, nil)
		err.RetryAfter = wait
		return err
	}
	c.entry = entry
	if entry.first {
		c.circuitChanged(CircuitHalfOpen)
	}
	return nil
}

func (c *Call) circuitChanged(s CircuitState) {
	for _, r := range c.home.recorders {
		r.CircuitChanged(s)
	}
}

// CallerEnded is the outcome of a call whose caller left, or whose caller's own
// deadline passed.
func CallerEnded(ctx context.Context) (Outcome, Attribution) {
	out := Outcome{Kind: failure.Cancelled, Status: NoStatus}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out.Kind = failure.TotalTimeout
	}
	return out, Attribution{Source: failure.SourceCaller}
}

// Attribution says whose limit ended an attempt.
type Attribution struct {
	Field  string
	Limit  time.Duration
	Source failure.Source
}

// attributeEnd says whose limit the end of a call or of its body was.
func (c *Call) attributeEnd(end time.Time) Attribution {
	total := c.home.Total
	switch {
	case total > 0 && end.Equal(c.start.Add(total)):
		return Attribution{Field: "timeouts.total", Limit: total, Source: failure.SourcePolicy}
	case end.Equal(c.budget):
		return Attribution{Limit: max(0, end.Sub(c.start)), Source: failure.SourceBudget}
	default:
		return Attribution{Limit: max(0, end.Sub(c.start)), Source: failure.SourceCaller}
	}
}

// BeginAttempt counts an attempt and returns its number, 1 for the first, and
// the time at which it begins.
func (c *Call) BeginAttempt() (number int, now time.Time) {
	c.attempts++
	c.sent++
	c.token = false
	c.began = c.start
	if c.sent > 1 {
		c.began = c.engine.clock.Now()
	}
	return c.attempts, c.began
}

// Continue carries the call on to the next hop of a redirect. The hop has the
// attempts and ceilings of its own policy (nil where none names its host), while
// deadline, retry budget, breaker and events stay those of the call.
func (c *Call) Continue(p *Policy) {
	if p == nil {
		p = &Policy{Upstream: c.home.Upstream, Shadow: c.home.Shadow, Scope: c.home.Scope, MaxAttempts: 1}
	}
	c.Policy = p
	c.attempts = 0
}

// Left returns what is left of the call at a time; negative where nothing
// limits it.
func (c *Call) Left(now time.Time) time.Duration {
	end := c.End()
	if end.IsZero() {
		return -1
	}
	return max(0, end.Sub(now))
}

// End returns when the call ends, the caller's own deadline included; zero for
// never.
func (c *Call) End() time.Time {
	if c.end.IsZero() || !c.caller.IsZero() && c.caller.Before(c.end) {
		return c.caller
	}
	return c.end
}

// before returns an end of the engine's own, or zero where the caller's context
// ends sooner and so does the work.
func (c *Call) before(end time.Time) time.Time {
	if !end.IsZero() && !c.caller.IsZero() && c.caller.Before(end) {
		return time.Time{}
	}
	return end
}

// Expired reports whether the call is over at a time, and whose limit it was.
func (c *Call) Expired(now time.Time) (Attribution, bool) {
	end := c.End()
	if end.IsZero() || now.Before(end) {
		return Attribution{}, false
	}
	return c.attributeEnd(end), true
}

// Lapsed reports whether too little of the call is left at a time to begin an
// attempt, and whose limit that is: nothing, or less than the deadline header
// could tell the peer, for which a request would cost a connection and come to
// nothing.
func (c *Call) Lapsed(at time.Time) (Attribution, bool) {
	end := c.End()
	if end.IsZero() {
		return Attribution{}, false
	}
	last := end.Add(-1)
	if p := c.Policy; p.DeadlineHeader != "" && !p.Shadow {
		last = end.Add(-p.DeadlineReserve - time.Millisecond)
	}
	if !at.After(last) {
		return Attribution{}, false
	}
	a := c.attributeEnd(end)
	if a.Source == failure.SourcePolicy && at.Before(end) {
		a.Field, a.Limit = "deadline.reserve", c.Policy.DeadlineReserve
	}
	return a, true
}

// Stamp returns what the deadline header of an attempt says: the whole
// milliseconds left at a time, 1 at least; false for no header.
func (c *Call) Stamp(at time.Time) (milliseconds int64, ok bool) {
	p, left := c.Policy, c.Left(at)
	if p.DeadlineHeader == "" || p.Shadow || left < 0 {
		return 0, false
	}
	return max(1, (left - p.DeadlineReserve).Milliseconds()), true
}

// Attempts returns the number of requests begun so far, those of earlier hops
// included.
func (c *Call) Attempts() int { return c.sent }

// Start returns when the call began.
func (c *Call) Start() time.Time { return c.start }

// Decided returns when the last attempt had ended, for those who need not ask the
// clock again.
func (c *Call) Decided() time.Time { return c.decided }

// Now asks the engine's clock.
func (c *Call) Now() time.Time { return c.engine.clock.Now() }

// Options returns what the call site said.
func (c *Call) Options() CallOptions { return c.options }

func (c *Call) failure(o Outcome, a Attribution, cause error) *failure.Error {
	return &failure.Error{
		Kind:     o.Kind,
		Source:   a.Source,
		Upstream: c.home.Upstream,
		Field:    a.Field,
		Attempts: c.sent,
		Elapsed:  c.engine.clock.Now().Sub(c.start),
		Limit:    a.Limit,
		Err:      cause,
	}
}

// Failure builds the error of a call that ended with the outcome.
func (c *Call) Failure(o Outcome, a Attribution, d Decision, cause error) *failure.Error {
	err := c.failure(o, a, cause)
	err.Skip = d.Skip
	err.RetryAfter = o.RetryAfter
	return err
}

// Settle ends the call: one signal to the breaker, one event to the observers.
func (c *Call) Settle(o Outcome, a Attribution, d Decision) {
	p, now := c.home, c.engine.clock.Now()
	if c.token {
		p.state.budget.refund()
		c.token = false
	}
	if p.hasBreaker && !p.Shadow {
		state, changed := p.state.breaker.report(p.breaker, c.entry, c.verdict(o, a), now)
		if changed {
			c.circuitChanged(state)
		}
	}
	c.publish(o, a.Source, d.Skip, now)
}

// verdict is what the outcome says about the peer. A limit that was the
// caller's or the ambient budget's says nothing.
func (c *Call) verdict(o Outcome, a Attribution) signal {
	switch {
	case o.OK:
		return signalSuccess
	case o.Kind == failure.Cancelled, a.Source != failure.SourcePolicy:
		return signalNeutral
	case o.Kind == failure.Status && !o.ServerFault:
		return signalSuccess
	case c.home.breaker.trip.Has(o.Kind):
		return signalFailure
	case o.Kind == failure.Status:
		return signalSuccess
	default:
		return signalNeutral
	}
}

func (c *Call) publish(o Outcome, source failure.Source, skip failure.SkipReason, now time.Time) {
	if len(c.home.recorders) == 0 && c.tracing == nil {
		return
	}
	event := CallEvent{
		Adapter:  c.adapter,
		Method:   c.method,
		Route:    c.route(),
		Attempts: c.sent,
		Duration: now.Sub(c.start),
		OK:       o.OK,
		Kind:     o.Kind,
		Status:   o.Status,
		Source:   source,
		Skip:     skip,
	}
	for _, r := range c.home.recorders {
		r.CallDone(event)
	}
	if c.tracing != nil {
		c.tracing.callDone(event, now)
	}
}

func (c *Call) route() string {
	if c.home.Route != "" {
		return c.home.Route
	}
	return c.options.Route
}

// BodyDone tells the observers that the response body ended.
func (c *Call) BodyDone(headers time.Time, o Outcome) {
	if len(c.home.recorders) == 0 && c.tracing == nil {
		return
	}
	now := c.engine.clock.Now()
	event := BodyEvent{
		Adapter:  c.adapter,
		Method:   c.method,
		Route:    c.route(),
		Status:   o.Status,
		Duration: now.Sub(headers),
		OK:       o.OK,
		Kind:     o.Kind,
	}
	for _, r := range c.home.recorders {
		r.BodyDone(event)
	}
	if c.tracing != nil {
		c.tracing.bodyDone(event, now)
	}
}
