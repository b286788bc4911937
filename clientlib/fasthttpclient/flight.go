package fasthttpclient

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// A response that is discarded is read up to these bounds, so that its
// connection can be used again, and then closed.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// flight is one logical call, over all its attempts and hops.
type flight struct {
	engine.Call

	engine   *engine.Engine
	snapshot *engine.Snapshot
	// ctx is the caller's, with fasthttp's own request timeout in it; cancel lets go
	// of it, nil for nothing to let go of.
	ctx    context.Context
	cancel context.CancelFunc
	// follows says that redirects are followed within the call.
	follows bool
	body    requestBody // of the hop under way
	// redirect is the response that the call waits on to be followed; nil for none.
	redirect *redirect
	// first spares a call that needs only one attempt an allocation.
	first attempt
	last  *attempt // nil before the first one
	// undecided says that the engine was not told yet how the attempt under way ended,
	// settled that it was told how the call did.
	undecided, settled bool
}

// result is what an attempt brought: a response or an error, never both.
type result struct {
	responded bool
	err       error
	// again says that fasthttp by itself would repeat the request.
	again       bool
	outcome     engine.Outcome
	attribution engine.Attribution
}

// redirect is a response that may be followed.
type redirect struct {
	attempt  *attempt
	outcome  engine.Outcome
	decision engine.Decision
	body     *bodyEnd // nil while it is open
}

// bodyEnd is how a body ended, and when.
type bodyEnd struct {
	outcome engine.Outcome
	at      time.Duration // since the start of the call
}

// begin opens the call.
func (f *flight) begin(p *engine.Policy, req *fasthttp.Request) error {
	if d := req.GetTimeOut(); d > 0 {
		f.ctx, f.cancel = context.WithTimeout(f.ctx, d)
	}
	m := method(req)
	if tracer := f.engine.Tracer(); tracer != nil {
		f.Trace(f.ctx, tracer, p, engine.CallInfo{Adapter: adapterName, Method: m, URL: urlOf(req)})
	}
	if err := f.Begin(f.ctx, f.engine, p, adapterName, m); err != nil {
		f.over()
		return asFamily(err)
	}
	return nil
}

// over lets go of the caller's context.
func (f *flight) over() {
	if f.cancel != nil {
		f.cancel()
	}
}

// urlOf is for traces.
func urlOf(req *fasthttp.Request) *url.URL {
	uri := req.URI()
	if u, err := url.Parse(string(uri.FullURI())); err == nil {
		return u
	}
	return &url.URL{Scheme: string(uri.Scheme()), Host: string(uri.Host())}
}

// native reports whether fasthttp's own retries work: where no policy names the
// host, and in mode Shadow, which changes nothing.
func (f *flight) native() bool { return f.Policy == budgetOnly || f.Policy.Shadow }

// run makes one hop.
func (f *flight) run(h *host, hc *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	f.body = newRequestBody(req, f.Policy)
	defer f.body.settle()
	returned := false
	defer func() {
		if !returned {
			f.panicked()
		}
	}()
	retry, err = f.tries(h, hc, req, resp)
	returned = true
	return retry, err
}

// panicked ends the call for a panic of what the program has in it, such as a dial
// function, the stream of a body or a connection, which somebody may recover from.
func (f *flight) panicked() {
	out := engine.Outcome{Kind: failure.Unknown, Status: engine.NoStatus}
	a := f.last
	switch {
	case a == nil:
		return
	case f.redirect != nil:
		a.finish(false)
		a.end(out)
		f.settleRedirect()
	case f.settled:
		a.finish(false)
		a.end(out)
	case f.undecided:
		decision := f.Decide(out)
		a.finish(false)
		f.conclusion(out, engine.Attribution{}, decision)
	default:
		a.finish(false)
		f.settled = true
		f.Settle(out, engine.Attribution{}, engine.Decision{})
	}
	a.connected()
	f.over()
}

// conclusion tells the engine how the call ended with what was just decided.
func (f *flight) conclusion(o engine.Outcome, a engine.Attribution, d engine.Decision) {
	f.settled = true
	f.Conclude(o, a, d)
}

// tries is the attempt loop of one hop.
func (f *flight) tries(h *host, hc *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	for {
		if err := f.lapse(); err != nil {
			return false, err
		}
		a := f.open(h, hc)
		res := a.send(req, resp, &f.body)
		if res.outcome.OK && !f.waits(resp) {
			f.settled = true
			f.Succeed(res.outcome.Status)
			return f.deliver(a, resp)
		}
		if !res.outcome.OK {
			res.outcome.Repeatable = f.repeatable(req)
			res.outcome.Replayable = f.body.replayable()
		}
		decision := f.Decide(res.outcome)
		f.undecided = false
		if !decision.Retry {
			return f.conclude(a, resp, res, decision)
		}
		next := f.Decided().Add(decision.Wait)
		a.discard(resp, res)
		if err := f.wait(next); err != nil {
			return false, err
		}
	}
}

// lapse ends the call where too little of it is left for another request.
func (f *flight) lapse() error {
	attribution, lapsed := f.LapsedNow()
	if !lapsed {
		return nil
	}
	out := engine.Outcome{Kind: failure.TotalTimeout, Status: engine.NoStatus}
	return f.end(out, attribution, nil)
}

// end ends the call between two attempts.
func (f *flight) end(o engine.Outcome, a engine.Attribution, cause error) error {
	f.over()
	f.settled = true
	f.Settle(o, a, engine.Decision{})
	return asFamily(f.Failure(o, a, engine.Decision{}, cause))
}

// open begins an attempt.
func (f *flight) open(h *host, hc *fasthttp.HostClient) *attempt {
	a := &f.first
	if f.last != nil {
		// The limits of an attempt that ended may be about to fire.
		a = new(attempt)
	}
	f.last, f.undecided = a, true
	a.flight, a.host, a.hc = f, h, hc
	a.OnLimit(a)
	a.OpenNext(f.ctx, &f.Call, false)
	a.began = f.Began()
	return a
}

// repeatable reports whether the call may be made twice.
func (f *flight) repeatable(req *fasthttp.Request) bool {
	switch f.Options().Vouch {
	case engine.VouchIdempotent:
		return true
	case engine.VouchOnce:
		return false
	}
	m := method(req)
	return f.Policy.Repeatable(m, nil) || f.Policy.Repeatable(m, headerMap(req))
}

// conclude ends the hop with what its last attempt brought.
func (f *flight) conclude(a *attempt, resp *fasthttp.Response, res result, d engine.Decision) (retry bool, err error) {
	if !res.responded {
		a.finish(false)
		if a != &f.first {
			forget(resp)
		}
		f.over()
		f.conclusion(res.outcome, res.attribution, d)
		return res.again && f.native(), asFamily(f.Failure(res.outcome, res.attribution, d, res.err))
	}
	if f.waits(resp) {
		f.redirect = &redirect{attempt: a, outcome: res.outcome, decision: d}
	} else {
		f.conclusion(res.outcome, res.attribution, d)
	}
	return f.deliver(a, resp)
}

// waits reports whether the call goes on with a redirect.
func (f *flight) waits(resp *fasthttp.Response) bool {
	return f.follows && fasthttp.StatusCodeIsRedirect(resp.StatusCode())
}

// deliver gives the response to the caller. One whose body broke off is repeated by
// fasthttp's own rules only.
func (f *flight) deliver(a *attempt, resp *fasthttp.Response) (retry bool, err error) {
	err = a.deliver(resp)
	return err != nil && f.native() && !errors.Is(err, fasthttp.ErrBodyTooLarge), err
}

// forget takes what an earlier attempt left in the response.
func forget(resp *fasthttp.Response) {
	skip, stream := resp.SkipBody, resp.StreamBody
	resp.Reset()
	resp.SkipBody, resp.StreamBody = skip, stream
}

// next goes on with the hop after a redirect.
func (f *flight) next(p *engine.Policy) {
	f.redirect.attempt.followed = true
	f.redirect = nil
	f.Continue(p)
}

// settleRedirect ends the call with the redirect that it waits on.
func (f *flight) settleRedirect() {
	r := f.redirect
	f.redirect, f.settled = nil, true
	f.Settle(r.outcome, engine.Attribution{}, r.decision)
	if r.body != nil {
		f.over()
		f.BodyDone(r.body.outcome, r.body.at)
	}
}

// wait sleeps until the next attempt is due, unless the caller ends the call.
func (f *flight) wait(next time.Time) error {
	outcome, attribution, ended := f.Rest(f.ctx, next)
	if !ended {
		return nil
	}
	return f.end(outcome, attribution, context.Cause(f.ctx))
}
