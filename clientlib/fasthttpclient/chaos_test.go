package fasthttpclient_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/valyala/fasthttp"
)

// Calls of all kinds at once, to a server that does anything, under any rules: every
// error keeps its contract, every call is told of, and nothing is left.
func TestNothingIsLeftWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		c := chaos{policytest.NewChaos(seed)}
		s := &setup{handler: c, base: fasthttp.Client{StreamResponseBody: c.OneIn(2)}}
		if c.OneIn(3) {
			s.base.MaxConnsPerHost, s.base.MaxConnWaitTimeout = 1+c.N(3), time.Second
		}
		inFakeTimeWith(t, rules(t, c.Rules), s, func(b *bench) {
			c.Calls(func(all *sync.WaitGroup) { c.call(b, all) })
			synctest.Wait()
			policytest.Settled(t, b.events, b.timers)
			c.Recovers(b.t, func() error { return c.calm(b) })
		})
		if t.Failed() {
			t.Fatalf("with seed %d under %q", seed, c.Rules)
		}
	}
}

type chaos struct{ *policytest.Chaos }

// call makes a call in some way, and reads something of its response.
func (c chaos) call(b *bench, all *sync.WaitGroup) {
	<-time.After(c.Within(500 * time.Millisecond))
	ctx, cancel := c.Caller(b.t.Context(), all)
	defer cancel()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://orders/")
	switch c.N(4) {
	case 0:
		req.Header.SetMethod(fasthttp.MethodPost)
		req.SetBodyString("some body")
	case 1:
		body := c.Body(all)
		defer body.Close()
		req.Header.SetMethod(fasthttp.MethodPut)
		req.SetBodyStream(body, -1)
	}
	switch c.N(3) {
	case 0:
		c.check(b, b.client.Do(ctx, req, resp))
	case 1:
		c.check(b, b.client.DoTimeout(ctx, req, resp, time.Millisecond+c.Within(900*time.Millisecond)))
	default:
		c.check(b, b.client.DoRedirects(ctx, req, resp, c.N(4)))
	}
	if !resp.IsBodyStream() {
		return
	}
	for range c.N(8) {
		if _, err := resp.BodyStream().Read(make([]byte, 3)); err != nil {
			c.check(b, err)
			break
		}
		if c.OneIn(3) {
			<-time.After(c.Within(300 * time.Millisecond))
		}
	}
}

// check lets pass what is fasthttp's own: the end of a body, redirects that it does
// not follow, and its repetitions in mode Shadow.
func (c chaos) check(b *bench, err error) {
	if err == nil || err == io.EOF || errors.Is(err, fasthttp.ErrTooManyRedirects) || strings.Contains(err.Error(), "cannot follow a body-preserving redirect") ||
		c.Shadow() && err == fasthttp.ErrTimeout {
		return
	}
	for _, breach := range policytest.Breaches(err) {
		b.t.Errorf("%s", breach)
	}
	if timedOut := errors.Is(err, context.DeadlineExceeded); errors.Is(err, fasthttp.ErrTimeout) != timedOut {
		b.t.Errorf("%v is an ErrTimeout: %t", err, !timedOut)
	}
}

// calm makes a call that has to succeed.
func (c chaos) calm(b *bench) error {
	x := b.get("/ok")
	if x.Response.IsBodyStream() {
		_ = x.Response.CloseBodyStream()
	}
	return x.err
}
