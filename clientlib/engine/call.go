package engine

import (
	"context"
	"errors"
	"math"
	"strconv"
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

	home    *Policy // of the first hop: whose breaker, budget and events
	engine  *Engine
	options *CallOptions // nil for none
	tracing *tracing
	adapter string
	method  string
	start   time.Duration // on the engine's timeline
	// Every other time is kept as the time since start.
	end      time.Duration // the soonest of total, cap and budget; never for none
	whole    time.Duration // the same before anything was kept back; never for none
	budget   time.Duration // end of the budget, less what is kept back; never for none
	limit    time.Duration // end that the call site set; never for none
	caller   time.Duration // deadline of the caller's context; never for none
	began    time.Duration // of the attempt under way
	decided  time.Duration // when the last attempt had ended
	looked   time.Duration // when Lapsed found enough left for an attempt, plus one; 0 for not yet
	entry    admission
	bodyTook func(time.Duration) // of FirstTry, nil for none
	sent     int32               // requests of all hops
	attempts int16               // of the hop under way
	token    bool                // a retry token was taken for an attempt that is not sent yet
	tells    bool                // the protocol itself tells the peer what is left
}

// never is the end of what has none.
const never time.Duration = math.MaxInt64

// Begin opens the call: it computes the deadline and asks the breaker. The
// method is for events only. An error is a *[failure.Error] and means that
// nothing may be sent and Settle must not be called.
func (c *Call) Begin(ctx context.Context, e *Engine, p *Policy, adapter, method string) error {
	c.engine, c.Policy, c.home, c.adapter, c.method = e, p, p, adapter, method
	c.options = callOptions(ctx)
	c.start = e.timeline.Now()
	c.computeEnd(ctx)
	for _, r := range p.recorders {
		r.CallStarted(adapter)
	}
	if err := c.refusal(ctx); err != nil {
		c.publish(Outcome{Kind: err.Kind, Status: NoStatus}, err.Source, failure.SkipNone, 0)
		return err
	}
	if p.hasBudget && !p.state.budget.full() {
		p.state.budget.deposit(p.budget)
	}
	return nil
}

// computeEnd takes the soonest of what limits the call. Budgets and caps are the
// program's word: they hold in mode Shadow too, which changes nothing.
func (c *Call) computeEnd(ctx context.Context) {
	p := c.Policy
	c.end, c.budget, c.limit, c.caller = never, never, never, never
	if at, ok := ctx.Deadline(); ok {
		c.caller = c.since(at)
	}
	if p.Total > 0 && !p.Shadow {
		c.end = p.Total
	}
	if c.options != nil && c.options.Cap > 0 {
		c.limit = c.options.Cap
		c.end = min(c.end, c.limit)
	}
	c.whole = c.end
	ambient := deadline.Has(ctx) && (p.Shadow || !p.IgnoreBudget)
	if !ambient && c.engine.budget == nil {
		return
	}
	left, ok := c.engine.budgetLeft(ctx, ambient)
	if !ok {
		return
	}
	c.budget = left
	c.whole = min(c.end, c.budget)
	if !p.Shadow {
		c.budget -= p.DeadlineReserve // kept for the caller's own reply
	}
	c.end = min(c.end, c.budget)
}

// refusal says why the call must not begin.
func (c *Call) refusal(ctx context.Context) *failure.Error {
	if ctx.Err() != nil {
		out, attribution := CallerEnded(ctx)
		return c.failure(out, attribution, context.Cause(ctx))
	}
	p := c.Policy
	// A total of which nothing is kept back is enough to begin.
	if p.Total <= 0 || c.ends() != p.Total || c.stamps() || c.tells {
		if a, lapsed := c.lapsed(0); lapsed {
			return c.failure(Outcome{Kind: failure.TotalTimeout}, a, nil)
		}
	}
	if !p.hasBreaker || p.Shadow {
		return nil
	}
	entry, ok := p.state.breaker.pass()
	if !ok {
		return c.ask(&p.state.breaker)
	}
	c.entry = entry
	return nil
}

// ask asks a breaker that is not in the usual case.
func (c *Call) ask(b *breaker) *failure.Error {
	entry, wait, ok := b.admit(c.Policy.breaker, c.at(0))
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
func (c *Call) attributeEnd(end time.Duration) Attribution {
	total := c.home.Total
	switch {
	case total > 0 && end == total && !c.home.Shadow:
		return Attribution{Field: "timeouts.total", Limit: total, Source: failure.SourcePolicy}
	case end == c.budget:
		return Attribution{Limit: max(0, end), Source: failure.SourceBudget}
	default:
		return Attribution{Limit: max(0, end), Source: failure.SourceCaller}
	}
}

// BeginAttempt counts an attempt and returns its number, 1 for the first, and
// the time at which it begins.
func (c *Call) BeginAttempt() (number int, now time.Time) {
	c.count()
	return int(c.attempts), c.Began()
}

func (c *Call) count() {
	c.attempts++
	c.sent++
	c.token = false
	c.decided = 0
	switch {
	case c.looked > 0:
		c.began = c.looked - 1 // what was enough then is what the peer is told
	case c.sent == 1:
		c.began = 0
	default:
		c.began = c.elapsed()
	}
	c.looked = 0
}

// Began returns when the attempt under way began.
func (c *Call) Began() time.Time { return c.at(c.began) }

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
func (c *Call) Left(now time.Time) time.Duration { return c.left(c.since(now)) }

func (c *Call) left(now time.Duration) time.Duration {
	end := c.ends()
	if end == never {
		return -1
	}
	return max(0, end-now)
}

// End returns when the call ends, the caller's own deadline included; zero for
// never.
func (c *Call) End() time.Time { return c.at(c.ends()) }

func (c *Call) ends() time.Duration { return min(c.end, c.caller) }

// at turns the time since the start into the time, zero for never.
func (c *Call) at(since time.Duration) time.Time {
	if since == never {
		return time.Time{}
	}
	return c.engine.timeline.At(c.start + min(since, never-c.start))
}

// wall is the time since the start as the wall clock shows it now, for what is
// compared with other machines' times: it may have been set since the engine was
// made.
func (c *Call) wall(since time.Duration) time.Time { return c.Now().Add(since - c.elapsed()) }

// since turns a time into the time since the start, never, or minus that, for one
// beyond what a number can say.
func (c *Call) since(at time.Time) time.Duration {
	on := c.engine.timeline.Of(at)
	if on == never {
		return never
	}
	return max(on, c.start-never) - c.start
}

// before returns an end of the engine's own, or never where the caller's context
// ends sooner and so does the work.
func (c *Call) before(end time.Duration) time.Duration {
	if c.caller < end {
		return never
	}
	return end
}

// Expired reports whether the call is over at a time, and whose limit it was.
func (c *Call) Expired(now time.Time) (Attribution, bool) { return c.expired(c.since(now)) }

func (c *Call) expired(now time.Duration) (Attribution, bool) {
	end := c.ends()
	if end == never || now < end {
		return Attribution{}, false
	}
	return c.attributeEnd(end), true
}

// Lapsed reports whether too little of the call is left at a time to begin an
// attempt, and whose limit that is: nothing, or less than the deadline header
// could tell the peer, for which a request would cost a connection and come to
// nothing.
func (c *Call) Lapsed(at time.Time) (Attribution, bool) { return c.lapses(c.since(at)) }

func (c *Call) lapses(now time.Duration) (Attribution, bool) {
	a, lapsed := c.lapsed(now)
	if !lapsed {
		c.looked = now + 1
	}
	return a, lapsed
}

// LapsedNow is Lapsed at this moment, which for the first attempt is the beginning
// of the call.
func (c *Call) LapsedNow() (Attribution, bool) {
	if c.sent == 0 {
		return c.lapses(0)
	}
	return c.lapses(c.elapsed())
}

func (c *Call) lapsed(at time.Duration) (Attribution, bool) {
	end := c.ends()
	if end == never {
		return Attribution{}, false
	}
	last := end - 1
	if c.stamps() || c.tells && c.Policy.DeadlineReserve > 0 && !c.Policy.Shadow {
		last = c.granted() - time.Millisecond
	}
	if at <= last {
		return Attribution{}, false
	}
	a := c.attributeEnd(end)
	if a.Source == failure.SourcePolicy && at < end {
		a.Field, a.Limit = "deadline.reserve", c.Policy.DeadlineReserve
	}
	return a, true
}

// stamps reports whether the peer is told what is left.
func (c *Call) stamps() bool { return c.Policy.DeadlineHeader != "" && !c.Policy.Shadow }

// granted returns the end that the peer is told; never for none. The reserve is
// kept back once: from the soonest of all that limits the call, not from what a
// budget has left after its own reserve.
func (c *Call) granted() time.Duration {
	whole := max(0, min(c.whole, c.caller))
	if whole == never {
		return never
	}
	return min(c.ends(), whole-c.Policy.DeadlineReserve)
}

// Stamp returns what the deadline header of an attempt says: the whole
// milliseconds left at a time less the reserve, 1 at least where [Call.Lapsed]
// let the attempt begin at that time; false for no header.
func (c *Call) Stamp(at time.Time) (milliseconds int64, ok bool) {
	if !c.stamps() {
		return 0, false
	}
	end := c.granted()
	if end == never {
		return 0, false
	}
	return max(0, end-c.since(at)).Milliseconds(), true
}

// StampText is Stamp in the notation that the name of the header stands for.
func (c *Call) StampText(at time.Time) (value string, ok bool) {
	left, ok := c.Stamp(at)
	switch {
	case !ok:
		return "", false
	case c.Policy.notation == deadline.Header{}:
		return strconv.FormatInt(left, 10), true
	default:
		return c.Policy.notation.Format(time.Duration(left) * time.Millisecond), true
	}
}

// DeadlineHeader returns the header, in canonical form, that is the engine's to
// set or to leave out on the hop under way; "" for none. It is the one that the
// hop's policy names. After a redirect away from a policy with a header it is
// that one, which the next host must not be sent: the request may have a copy of
// its own, of what an earlier service was told.
func (c *Call) DeadlineHeader() string {
	switch {
	case c.Policy.Shadow:
		return ""
	case c.Policy.DeadlineHeader != "":
		return c.Policy.DeadlineHeader
	default:
		return c.home.DeadlineHeader
	}
}

// Attempts returns the number of requests begun so far, those of earlier hops
// included.
func (c *Call) Attempts() int { return int(c.sent) }

// Start returns when the call began.
func (c *Call) Start() time.Time { return c.at(0) }

// Decided returns when the last attempt had ended, for those who need not ask the
// clock again.
func (c *Call) Decided() time.Time { return c.at(c.decided) }

// Now asks the engine's clock.
func (c *Call) Now() time.Time { return c.engine.clock.Now() }

// elapsed is the time since the start.
func (c *Call) elapsed() time.Duration { return c.engine.timeline.Now() - c.start }

// Options returns what the call site said.
func (c *Call) Options() CallOptions {
	if c.options == nil {
		return CallOptions{}
	}
	return *c.options
}

func (c *Call) failure(o Outcome, a Attribution, cause error) *failure.Error {
	return &failure.Error{
		Kind:     o.Kind,
		Source:   a.Source,
		Upstream: c.home.Upstream,
		Field:    a.Field,
		Attempts: int(c.sent),
		Elapsed:  c.elapsed(),
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
func (c *Call) Settle(o Outcome, a Attribution, d Decision) { c.settle(o, a, d, c.elapsed()) }

// Conclude is Settle for a call that ends with what Decide was just asked about,
// so that the clock need not be asked again: it ended when that was decided.
func (c *Call) Conclude(o Outcome, a Attribution, d Decision) { c.settle(o, a, d, c.decided) }

func (c *Call) settle(o Outcome, a Attribution, d Decision, now time.Duration) {
	p := c.home
	if c.token {
		p.state.budget.refund()
		c.token = false
	}
	if p.hasBreaker && !p.Shadow {
		c.signal(c.verdict(o, a), now)
	}
	c.publish(o, a.Source, d.Skip, now)
}

// Succeed is Decide and Conclude for an attempt that brought what was asked for,
// when the Scope of the attempt has entered the body.
func (c *Call) Succeed(status int) {
	p := c.home
	if c.sent != 1 || c.tracing != nil || p.firstTry == nil && len(p.recorders) > 0 {
		c.succeedAtLast(status)
		return
	}
	if c.decided == 0 {
		c.decided = c.elapsed()
	}
	now := c.decided
	if p.hasBreaker && !p.Shadow {
		c.signal(signalSuccess, now)
	}
	if p.firstTry != nil {
		c.bodyTook = p.firstTry.FirstTry(FirstTryEvent{Adapter: c.adapter, Method: c.method, Route: c.route(), Status: status, Duration: now})
	}
}

// succeedAtLast is Succeed for whom each event is told.
func (c *Call) succeedAtLast(status int) {
	o := Outcome{OK: true, Status: status}
	c.Conclude(o, Attribution{}, c.Decide(o))
}

// signal ends the call for the breaker.
func (c *Call) signal(s signal, now time.Duration) {
	if !c.home.state.breaker.settled(c.entry, s) { // as it is in the usual case
		c.report(s, now)
	}
}

func (c *Call) report(s signal, now time.Duration) {
	p := c.home
	if state, changed := p.state.breaker.report(p.breaker, c.entry, s, c.at(now)); changed {
		c.circuitChanged(state)
	}
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
	case o.in(c.home.breaker.trip):
		return signalFailure
	case o.Kind == failure.Status:
		return signalSuccess
	default:
		return signalNeutral
	}
}

func (c *Call) publish(o Outcome, source failure.Source, skip failure.SkipReason, now time.Duration) {
	if len(c.home.recorders) == 0 && c.tracing == nil {
		return
	}
	event := CallEvent{
		Adapter:  c.adapter,
		Method:   c.method,
		Route:    c.route(),
		Attempts: int(c.sent),
		Duration: now,
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
		c.tracing.callDone(event, c.wall(now))
	}
}

func (c *Call) route() string {
	if c.home.Route != "" || c.options == nil {
		return c.home.Route
	}
	return c.options.Route
}

// BodyDone tells the observers that the response body ended whose headers the
// last attempt brought; now is the time since the start of the call, as
// [Scope.Look] returns it.
func (c *Call) BodyDone(o Outcome, now time.Duration) {
	if c.bodyTook != nil && o.OK {
		c.bodyTook(now - c.decided)
		return
	}
	if len(c.home.recorders) == 0 && c.tracing == nil {
		return
	}
	event := BodyEvent{
		Adapter:  c.adapter,
		Method:   c.method,
		Route:    c.route(),
		Status:   o.Status,
		Duration: now - c.decided,
		OK:       o.OK,
		Kind:     o.Kind,
	}
	for _, r := range c.home.recorders {
		r.BodyDone(event)
	}
	if c.tracing != nil {
		c.tracing.bodyDone(event, c.wall(now))
	}
}
