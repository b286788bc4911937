package fasthttpclient

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// attempt is one request under limits and, when it brought the final response,
// that response's body.
type attempt struct {
	engine.Scope
	exchange

	flight *flight
	began  time.Time
	// unhook keeps the end of the caller's context from interrupting; nil for a
	// context without an end.
	unhook func() bool
	// timer of timeouts.connect while the connection is waited for.
	timer  clock.Timer
	dials  atomic.Bool
	stream atomic.Pointer[stream] // of a response whose body is streamed
	status int
	// events says that the body is a stream of events, whose total ends at the
	// headers.
	events bool
	ended  atomic.Bool
	// followed says that the response was a redirect, and the call goes on.
	followed bool

	shadow engine.Comparison
}

// send makes the request and classifies what came back.
func (a *attempt) send(req *fasthttp.Request, resp *fasthttp.Response, body *requestBody) result {
	if ctx := a.flight.ctx; ctx.Done() != nil {
		a.unhook = context.AfterFunc(ctx, a.Interrupt)
	}
	out := outgoing{own: req, body: body}
	a.trace(&out)
	at, err := a.roundTrip(&out, resp)
	out.release()
	if a.Rules().Shadow {
		a.shadow.Headers(&a.Scope, a.began)
	}
	if err != nil {
		return a.failed(at, err)
	}
	a.status = resp.StatusCode()
	// Buffered, the caller has nothing of a stream before its end.
	a.events = resp.StreamBody && isEvents(resp)
	if !a.EnterBody(a.events) {
		return a.failed(atHead, nil)
	}
	return result{responded: true, outcome: a.classifyStatus(resp)}
}

// roundTrip goes as far as the headers of the response, and says where it ended.
func (a *attempt) roundTrip(out *outgoing, resp *fasthttp.Response) (stage, error) {
	err := a.exchange.connect(&a.Scope, a.dialWithin(), out.own, resp, a)
	a.connected()
	if err != nil {
		return atConnect, err
	}
	if err := a.write(out); err != nil {
		return atWrite, err
	}
	var await func()
	if a.Rules().ResponseHeader > 0 {
		await = a.awaitReply
	}
	return atHead, a.readHead(resp, await)
}

// Interrupt is called when a limit or the caller ended the attempt.
func (a *attempt) Interrupt() {
	a.interrupt()
	if s := a.stream.Load(); s != nil {
		s.abandon()
	}
}

// dialWithin returns how long a dial may last, zero for what fasthttp is
// configured with.
func (a *attempt) dialWithin() time.Duration {
	p := a.Rules()
	within := a.flight.Left(a.began)
	if !p.Shadow {
		for _, limit := range [...]time.Duration{p.Attempt, p.Connect} {
			if limit > 0 && (within < 0 || limit < within) {
				within = limit
			}
		}
	}
	if within < 0 {
		return 0
	}
	return within + dialSlack
}

// queued begins the wait that timeouts.connect limits.
func (a *attempt) queued() { a.startConnect() }

// dialing goes on with it.
func (a *attempt) dialing() {
	a.dials.Store(true)
	a.startConnect()
}

func (a *attempt) startConnect() {
	if a.timer != nil || a.Rules().Connect == 0 {
		return
	}
	a.timer = a.limit(a.Rules().Connect, func() engine.Limit {
		if a.dials.Load() {
			return engine.LimitConnect
		}
		return engine.LimitPool
	})
}

// connected ends it.
func (a *attempt) connected() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// limit fires a limit after a time, or counts it in mode Shadow.
func (a *attempt) limit(d time.Duration, which func() engine.Limit) clock.Timer {
	return a.flight.engine.Clock().AfterFunc(d, func() {
		if a.Rules().Shadow {
			a.flight.WouldCut(which().Label())
			return
		}
		a.Fire(which())
	})
}

// awaitReply waits for the first byte of a response under timeouts.responseHeader.
func (a *attempt) awaitReply() {
	timer := a.limit(a.Rules().ResponseHeader, func() engine.Limit { return engine.LimitResponseHeader })
	defer timer.Stop()
	_, _ = a.br.Peek(1) // an error comes again with the headers
}

// failed builds the result of an attempt or a body that came to nothing. Whose
// limit it was is asked of the scope, the caller's context and the clock before
// the error is looked at.
func (a *attempt) failed(at stage, err error) result {
	cause, again := a.cause(at, err), at != atConnect
	none := engine.Outcome{Status: engine.NoStatus}
	if limit := a.Fired(); limit != engine.LimitNone {
		none.Kind = limit.Kind()
		return result{err: engine.CauseOf(cause), outcome: none, attribution: a.Attribution(limit)}
	}
	if ctx := a.flight.ctx; ctx.Err() != nil {
		out, attribution := engine.CallerEnded(ctx)
		return result{err: context.Cause(ctx), outcome: out, attribution: attribution}
	}
	if lapsed, ok := err.(*lapsedError); ok {
		none.Kind = failure.TotalTimeout
		return result{err: err, outcome: none, attribution: lapsed.attribution}
	}
	if attribution, over := a.Over(a.flight.Now()); over {
		// The peer gave up at the instant at which our timer was about to.
		none.Kind = failure.TotalTimeout
		return result{err: engine.CauseOf(cause), outcome: none, attribution: attribution}
	}
	none.Kind = classify(at, err, a.broken())
	return result{err: cause, again: again, outcome: none}
}

// broken returns the error that the connection itself had, nil for none.
func (a *attempt) broken() error {
	if a.conn == nil {
		return nil
	}
	return a.conn.err
}

// cause prefers what the connection had to say: fasthttp makes an EOF of any error
// before the first byte of a response.
func (a *attempt) cause(at stage, err error) error {
	if broken := a.broken(); broken != nil {
		err = broken
	}
	if at == atHead && err == io.EOF {
		return &relative{err: err, kin: fasthttp.ErrConnectionClosed}
	}
	return err
}

// finish ends the scope and gives the connection back; once.
func (a *attempt) finish(keep bool) {
	a.Finish()
	if a.unhook != nil {
		a.unhook()
	}
	a.release(keep && a.Fired() == engine.LimitNone)
}

// discard ends an attempt that is going to be repeated.
func (a *attempt) discard(resp *fasthttp.Response, res result) {
	a.finish(res.responded && a.drain(resp))
	resp.ResetBody()
}

// drain reads a body that nobody wants, and reports whether that came to its end.
func (a *attempt) drain(resp *fasthttp.Response) bool {
	length := resp.Header.ContentLength()
	if !bodiless(resp) && (length == identity || length > drainBytes) || a.closing {
		return false
	}
	bound := drainTime
	if left := a.flight.Left(a.flight.Now()); left >= 0 {
		bound = min(bound, left)
	}
	timer := a.flight.engine.Clock().AfterFunc(bound, a.interrupt)
	defer timer.Stop()
	streams := resp.StreamBody
	resp.StreamBody = false
	defer func() { resp.StreamBody = streams }()
	return a.readBodyUpTo(resp, drainBytes) == nil
}

// deliver reads the body of the final response, or hands its stream to the caller.
func (a *attempt) deliver(resp *fasthttp.Response) error {
	a.conn.idle = a
	if resp.StreamBody && !bodiless(resp) {
		s := newStream(&a.exchange, resp, a)
		a.stream.Store(s)
		if a.interrupted() {
			s.abandon() // the attempt ended before there was one
		}
		return nil
	}
	err := a.readBody(resp)
	if err == nil && a.Fired() == engine.LimitNone {
		a.finish(true)
		a.end(engine.Outcome{OK: true})
		return nil
	}
	return a.bodyFailed(err)
}

// bodyFailed ends a body and says why.
func (a *attempt) bodyFailed(err error) error {
	res := a.failed(atBody, err)
	a.finish(false)
	a.end(res.outcome)
	return asFamily(a.flight.Failure(res.outcome, res.attribution, engine.Decision{}, res.err))
}

// end is the one end of a body.
func (a *attempt) end(o engine.Outcome) {
	if a.ended.Swap(true) {
		return
	}
	if a.Rules().Shadow {
		a.shadow.Body(&a.Scope, a.events)
	}
	o.Status = a.status
	now, _ := a.Look()
	switch r := a.flight.redirect; {
	case a.followed: // a call has one body, that of its final response
	case r != nil && r.attempt == a:
		r.body = &bodyEnd{o, now}
	default:
		a.flight.over()
		a.flight.BodyDone(o, now)
	}
}

// ok is the end of a body that was read to its end or closed by its caller.
func (a *attempt) ok() { a.end(engine.Outcome{OK: true}) }
