package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// attempt is one request: the context it is made with and, when it brought the
// final response, that response's body.
type attempt struct {
	engine.Scope

	flight *flight
	phases *phaseWatch
	stamp  [1]string
	// request is the copy that is sent. It is part of the attempt, so that it
	// costs no allocation of its own.
	request http.Request

	// Of the final response:
	inner   io.ReadCloser
	unwatch func() bool // of a traced body
	err     error       // what Read returns from now on
	status  int32
	ticket  uint32 // of the redirect that the response is, see hop
	closed  atomic.Bool
	ended   atomic.Bool
	stream  bool
	watched bool // reads are looked after: for the idle gap, or in mode Shadow
	shadow  engine.Comparison
}

// errCut is what send returns where the headers came too late.
var errCut = errors.New("a limit passed before the headers")

// send makes the request. It returns a response whose body is under way, or an
// error.
func (a *attempt) send(req *http.Request, body *requestBody) (*http.Response, error) {
	out, err := a.prepare(req, body)
	if err != nil {
		return nil, err
	}
	var release func()
	if out.Body != nil {
		release = body.guard(&a.Scope, out.Body)
	}
	base := a.flight.transport.base
	resp, err := base.RoundTrip(out)
	if release != nil {
		release()
	}
	if a.phases != nil {
		a.phases.stop()
	}
	if err != nil || resp == nil || resp.Body == nil {
		resp, err = bound(base, resp, err)
	}
	if a.Rules().Shadow {
		a.shadow.Headers(&a.Scope, a.flight.Began())
	}
	if err != nil {
		return nil, err
	}
	a.stream = isStream(req, resp)
	if !a.EnterBody(a.stream) {
		_ = resp.Body.Close()
		return nil, errCut
	}
	return resp, nil
}

// bound holds a base to the contract of http.RoundTripper: a response or an error,
// and a body with every response.
func bound(base http.RoundTripper, resp *http.Response, err error) (*http.Response, error) {
	switch {
	case resp == nil && err == nil:
		return nil, fmt.Errorf("%T returned neither a response nor an error", base)
	case resp == nil:
		return nil, err
	case resp.Body == nil:
		resp.Body = http.NoBody
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// judge classifies what send returned.
func (a *attempt) judge(resp *http.Response, err error) result {
	switch err {
	case nil:
		return result{response: resp, outcome: a.classifyResponse(resp)}
	case errCut:
		return a.failed(nil)
	default:
		return a.failed(err)
	}
}

// inClientsWords is what http.Client makes of an error of its transport. It looks
// for the bare type, which is not what we return.
func inClientsWords(err error) error {
	if r, ok := err.(tls.RecordHeaderError); ok && string(r.RecordHeader[:]) == "HTTP/" {
		return http.ErrSchemeMismatch
	}
	return err
}

// prepare builds the request of this attempt: a shallow copy, never the
// caller's own.
func (a *attempt) prepare(req *http.Request, body *requestBody) (*http.Request, error) {
	var ctx context.Context = &a.Scope
	if a.Rules().Watches() {
		ctx = a.watchPhases(ctx)
	}
	header := req.Header
	if a.flight.Traced() {
		header = cloneHeader(header)
		info := engine.AttemptInfo{Method: req.Method, URL: req.URL}
		ctx = a.flight.TraceAttempt(ctx, info, headerCarrier(header))
	}
	a.request = *req.WithContext(ctx)
	out := &a.request
	out.Header = header
	if out.Body != nil {
		if err := body.attach(out); err != nil {
			return nil, err
		}
	}
	if name := a.flight.DeadlineHeader(); name != "" {
		a.tell(out, name)
	}
	return out, nil
}

// tell writes the deadline header. What the request had under that name, as
// proxies pass on what they were told, is replaced, however it is spelled.
func (a *attempt) tell(out *http.Request, name string) {
	text, ok := a.flight.StampText(a.flight.Began())
	if !ok && !hasHeader(out.Header, name) {
		return
	}
	if !a.flight.Traced() {
		out.Header = cloneHeader(out.Header)
	}
	deadline.Remove(out.Header, name)
	if ok {
		a.stamp[0] = text
		out.Header[name] = a.stamp[:]
	}
}

// tellAgain takes the wait for a connection off what the peer is told. It is
// called by the goroutine that makes the request, before the header is written.
func (a *attempt) tellAgain() {
	if a.stamp[0] == "" {
		return
	}
	now := a.flight.Now()
	if _, lapsed := a.flight.Lapsed(now); lapsed {
		// Less than the header can say: nothing may be told, so nothing is asked.
		a.Fire(engine.LimitTotal)
		return
	}
	if text, ok := a.flight.StampText(now); ok {
		a.stamp[0] = text
	}
}

// failed builds the result of an attempt or a body that came to nothing. Whose
// limit it was is asked of the scope, the caller's context and the clock before
// the error is looked at.
func (a *attempt) failed(err error) result {
	none := engine.Outcome{Status: engine.NoStatus}
	if _, limit := a.Look(); limit != engine.LimitNone {
		none.Kind = limit.Kind()
		return result{err: engine.CauseOf(err), outcome: none, attribution: a.Attribution(limit)}
	}
	if a.Context.Err() != nil {
		out, attribution := engine.CallerEnded(a.Context)
		return result{err: context.Cause(a.Context), outcome: out, attribution: attribution}
	}
	if attribution, over := a.Over(a.flight.Now()); over {
		// The peer gave up at the instant at which our timer was about to.
		none.Kind = failure.TotalTimeout
		return result{err: engine.CauseOf(err), outcome: none, attribution: attribution}
	}
	none.Kind = classify(err)
	return result{err: inClientsWords(err), outcome: none}
}

// discard ends an attempt that is going to be repeated.
func (a *attempt) discard(resp *http.Response) {
	if resp != nil {
		if resp.Body != http.NoBody && resp.ContentLength <= drainBytes {
			a.drain(resp.Body)
		}
		_ = resp.Body.Close()
	}
	a.Finish()
}

// drain reads a body to its end, for a bounded time.
func (a *attempt) drain(body io.Reader) {
	bound := drainTime
	if left := a.flight.Left(a.flight.Now()); left >= 0 {
		bound = min(bound, left)
	}
	timer := a.flight.transport.engine.Clock().AfterFunc(bound, a.Finish)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}

// deliver hands the final response to the caller; from now on its body belongs
// to the attempt.
func (a *attempt) deliver(resp *http.Response) {
	a.status, a.inner = int32(resp.StatusCode), resp.Body
	a.watched = a.Rules().BodyIdle > 0
	if resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		if a.deliverWithoutBody(resp) {
			return
		}
	}
	resp.Body = a
	if a.flight.Traced() {
		a.traceBody()
	}
}

// deliverWithoutBody is deliver for a response that has no body to be read; false for
// one that has, or whose body is to be closed by who follows the redirect.
func (a *attempt) deliverWithoutBody(resp *http.Response) bool {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols && isUpgrade(resp):
		a.deliverUpgrade(resp)
	case resp.Body == http.NoBody && !isRedirect(resp):
		a.endNow(engine.Outcome{OK: true})
	default:
		return false
	}
	return true
}

// Read reads the response body under the limits of the call.
func (a *attempt) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	var n int
	var err error
	if a.watched {
		n, err = a.readWatched(p)
	} else {
		n, err = a.inner.Read(p)
	}
	if err != nil {
		err = a.bodyError(err)
		a.err = err
	}
	return n, err
}

func (a *attempt) readWatched(p []byte) (int, error) {
	began := a.shadow.BeginRead(&a.Scope)
	n, err := a.inner.Read(p)
	a.shadow.EndRead(&a.Scope, began)
	return n, err
}

// bodyError ends the body and says why.
func (a *attempt) bodyError(err error) error {
	now, limit := a.Look()
	fired := limit != engine.LimitNone
	if err == io.EOF && !fired {
		a.end(&engine.Outcome{OK: true}, now)
		return err
	}
	// An EOF after a limit is not the end of the body: a server that sees its
	// client leave may end what it was sending in good order.
	if a.closed.Load() && !fired {
		return err // read after or during Close: the library's own words
	}
	res := a.failed(err)
	if res.outcome.Kind == failure.Unknown {
		res.outcome.Kind = failure.BodyError
	}
	a.end(&res.outcome, now)
	return a.flight.Failure(res.outcome, res.attribution, engine.Decision{}, res.err)
}

// Close ends the body. The library's Close comes before the cancellation, so
// that a connection that can be kept is.
func (a *attempt) Close() error {
	if a.ended.Load() {
		return a.inner.Close()
	}
	a.closed.Store(true)
	err := a.inner.Close()
	now, limit := a.Look()
	outcome := engine.Outcome{OK: true}
	if limit != engine.LimitNone {
		// A limit had cut it, though nobody read on to see that.
		outcome = a.failed(nil).outcome
	}
	a.end(&outcome, now)
	return err
}

// end is the one end of a body: at EOF, Close or an error, whichever is first.
func (a *attempt) end(o *engine.Outcome, now time.Duration) {
	if a.unwatch != nil {
		a.unwatch()
	}
	a.endOnce(o, now)
}

// endNow is end for those who have not asked the clock.
func (a *attempt) endNow(o engine.Outcome) {
	now, _ := a.Look()
	a.end(&o, now)
}

func (a *attempt) endOnce(o *engine.Outcome, now time.Duration) {
	if a.ended.Swap(true) {
		return
	}
	if a.Rules().Shadow {
		a.shadow.Body(&a.Scope, a.stream)
	}
	a.Finish()
	o.Status = int(a.status)
	if a.ticket == 0 || a.flight.hop.closed(a.ticket, bodyEnd{*o, now}) {
		a.flight.BodyDone(*o, now)
	}
}
