package nethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
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

	transport *Transport
	snapshot  *engine.Snapshot
	hop       *hop // of a call that met a redirect
	// first spares a call that needs only one attempt an allocation.
	first attempt
}

// result is what an attempt brought: a response or an error, never both.
type result struct {
	response    *http.Response
	err         error
	outcome     engine.Outcome
	attribution engine.Attribution
}

// progress says how far a hop got.
type progress struct {
	last      *attempt // nil before the first one
	undecided bool     // the engine was not told how the last one ended
	returned  bool
}

// run makes one hop. What only failures and redirects need is elsewhere: a call that
// waited for a network finds the processor's caches cold, and each line of code and
// stack that it has to pass costs.
func (f *flight) run(req *http.Request) (*http.Response, error) {
	body := requestBody{req: req}
	if req.Body != nil {
		body.prepare(f.Policy)
	}
	var p progress
	defer func() {
		if body.capture != nil {
			body.capture.settle()
		}
		if !p.returned {
			f.panicked(&p)
		}
	}()
	for {
		if f.Attempts() > 0 { // for the first one Begin has looked
			if err := f.lapse(&body); err != nil {
				p.returned = true
				return nil, err
			}
		}
		a := f.open(req.Context())
		p.last, p.undecided = a, true
		resp, err := a.send(req, &body)
		if err == nil && resp.StatusCode < http.StatusMultipleChoices {
			p.returned = true
			return f.succeed(a, req, resp), nil
		}
		if resp, err, p.returned = f.follow(a, req, &body, &p, resp, err); p.returned {
			return resp, err
		}
	}
}

// succeed ends the call with a response that was asked for.
func (f *flight) succeed(a *attempt, req *http.Request, resp *http.Response) *http.Response {
	f.Succeed(resp.StatusCode)
	resp.Request = req
	a.deliver(resp)
	return resp
}

// follow decides what follows a redirect or a failure; not done means another
// attempt.
func (f *flight) follow(a *attempt, req *http.Request, body *requestBody, p *progress, resp *http.Response, err error) (_ *http.Response, _ error, done bool) {
	res := a.judge(resp, err)
	if res.outcome.OK && !isRedirect(res.response) {
		return f.succeed(a, req, res.response), nil, true
	}
	res.outcome.Repeatable = f.repeatable(req)
	res.outcome.Replayable = body.replayable()
	decision := f.Decide(res.outcome)
	p.undecided = false
	if !decision.Retry {
		resp, err = f.conclude(a, req, res, decision)
		return resp, err, true
	}
	next := f.Decided().Add(decision.Wait)
	a.discard(res.response)
	if err := f.wait(req.Context(), next); err != nil {
		return nil, err, true
	}
	return nil, nil, false
}

// panicked ends the call for a panic of what the program has in it, such as a base,
// a trace or a GetBody, which somebody may recover from.
func (f *flight) panicked(p *progress) {
	if p.last == nil {
		return
	}
	p.last.phases.stop()
	p.last.Finish()
	out := engine.Outcome{Kind: failure.Unknown, Status: engine.NoStatus}
	if p.undecided {
		f.Conclude(out, engine.Attribution{}, f.Decide(out))
		return
	}
	f.Settle(out, engine.Attribution{}, engine.Decision{})
}

// lapse ends the call where too little of it is left for another request.
func (f *flight) lapse(body *requestBody) error {
	attribution, lapsed := f.LapsedNow()
	if !lapsed {
		return nil
	}
	body.unused()
	out := engine.Outcome{Kind: failure.TotalTimeout, Status: engine.NoStatus}
	f.Settle(out, attribution, engine.Decision{})
	return f.Failure(out, attribution, engine.Decision{}, nil)
}

// open begins an attempt.
func (f *flight) open(ctx context.Context) *attempt {
	a := &f.first
	if f.Attempts() > 0 {
		// A library may keep the context of an attempt after it ended, so none
		// is used again.
		a = new(attempt)
	}
	a.flight = f
	a.OpenNext(ctx, &f.Call, f.transport.waits && !f.Policy.Watches() && !f.Traced())
	return a
}

func (f *flight) repeatable(req *http.Request) bool {
	switch f.Options().Vouch {
	case engine.VouchIdempotent:
		return true
	case engine.VouchOnce:
		return false
	default:
		return f.Policy.Repeatable(req.Method, req.Header)
	}
}

// conclude ends the hop with what its last attempt brought.
func (f *flight) conclude(a *attempt, req *http.Request, res result, d engine.Decision) (*http.Response, error) {
	resp := res.response
	if resp == nil {
		a.Finish()
		f.Conclude(res.outcome, res.attribution, d)
		return nil, f.Failure(res.outcome, res.attribution, d, res.err)
	}
	resp.Request = req
	if isRedirect(resp) {
		if f.hop == nil {
			f.hop = new(hop)
		}
		a.ticket = f.hop.await(f, res.outcome, d)
	} else {
		f.Conclude(res.outcome, res.attribution, d)
	}
	a.deliver(resp)
	return resp, nil
}

// wait sleeps until the next attempt is due, unless the caller ends the call.
func (f *flight) wait(ctx context.Context, next time.Time) error {
	outcome, attribution, ended := f.Rest(ctx, next)
	if !ended {
		return nil
	}
	f.Settle(outcome, attribution, engine.Decision{})
	return f.Failure(outcome, attribution, engine.Decision{}, context.Cause(ctx))
}
