package fasthttpclient_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// A library that makes its calls with a *fasthttp.Client can be given the context
// of its caller by the request.
func TestAContextReachesTheClientUnderneath(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		x := request("GET", "http://orders/hang")
		ctx := clientlib.WithCall(deadline.With(b.t.Context(), 2*time.Second), clientlib.Route("/hang"))
		fasthttpclient.SetContext(ctx, x.Request)
		for range 2 { // it stays, until the request is reset
			b.start = time.Now()
			fasthttpclient.SetContext(deadline.With(ctx, 2*time.Second), x.Request)
			x.err = b.client.Fasthttp().Do(x.Request, x.Response)
			if e := b.failed(x); e.Source != kinds.SourceBudget || b.elapsed() > 2*time.Second || b.events.Calls()[0].Route != "/hang" {
				b.t.Errorf("%v of the %s after %s, route %q", e.Kind, e.Source, b.elapsed(), b.events.Calls()[0].Route)
			}
		}
		x.Request.Reset()
		x.Request.SetRequestURI("http://orders/hang")
		b.start = time.Now()
		x.err = b.client.Fasthttp().Do(x.Request, x.Response)
		if e := b.failed(x); e.Source != kinds.SourcePolicy || b.elapsed() != 10*time.Second {
			b.t.Errorf("%v of the %s after %s", e.Kind, e.Source, b.elapsed())
		}
	})
}

func TestACallLeavesTheUserValuesOfItsRequest(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		x := request("GET", "http://orders/ok")
		x.Request.SetUserValue("mine", 1)
		b.ok(b.do(b.t.Context(), x), "ok\n")
		count := 0
		x.Request.VisitUserValuesAll(func(any, any) { count++ })
		if count != 1 || x.Request.UserValue("mine") != 1 {
			b.t.Errorf("%d user values are left", count)
		}
	})
}

// fasthttp's own helpers go through the policy too.
func TestHelpersOfTheClientUnderneathObeyThePolicy(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		if status, body, err := b.client.Fasthttp().Get(nil, "http://orders/redirect?n=2"); status != 200 || string(body) != "ok\n" || err != nil {
			b.t.Errorf("Get: %d %q, %v", status, body, err)
		}
		_, _, err := b.client.Fasthttp().Get(nil, "http://orders/hang")
		if e := failureOf(b.t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second {
			b.t.Errorf("Get of what hangs: %v after %s", e, b.elapsed())
		}
		// This one gives its caller back early and leaves a goroutine, which the
		// policy ends.
		if _, _, err := b.client.Fasthttp().GetTimeout(nil, "http://orders/hang", 100*time.Millisecond); !errors.Is(err, fasthttp.ErrTimeout) {
			b.t.Errorf("GetTimeout: %v", err)
		}
	})
}

// The context of a fasthttp server's handler is one like any other.
func TestTheContextOfAHandlerWillDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, rules(t, `"timeouts":{"total":"20s"}`, "127.0.0.1"), nil)
	silent := "http://" + silentServer(t)
	ended := make(chan error, 1)
	l := fasthttputil.NewInmemoryListener()
	server := &fasthttp.Server{Handler: func(handler *fasthttp.RequestCtx) {
		ctx := deadline.With(handler, 50*time.Millisecond)
		ended <- b.do(ctx, request("GET", silent)).err
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	front := &fasthttp.Client{Dial: func(string) (net.Conn, error) { return l.Dial() }}
	defer front.CloseIdleConnections()
	x := request("GET", "http://front/")
	if err := front.Do(x.Request, x.Response); err != nil {
		t.Fatal(err)
	}
	if e := failureOf(t, <-ended); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget {
		t.Errorf("%v of the %s", e.Kind, e.Source)
	}
	_ = l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestACallSiteMayWantLess(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		for _, host := range []string{"orders", "elsewhere"} {
			b.start = time.Now()
			ctx := clientlib.WithCall(context.Background(), clientlib.Cap(time.Second))
			e := b.failed(b.do(ctx, request("GET", "http://"+host+"/hang")))
			if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || b.elapsed() != time.Second {
				b.t.Errorf("%s: %v of the %s after %s", host, e.Kind, e.Source, b.elapsed())
			}
		}
	})
}

func TestADeadContextSendsNothing(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		x := b.do(ctx, request("GET", "http://orders/ok"))
		if e := b.failed(x); e.Kind != kinds.Cancelled || e.Attempts != 0 || b.network.Dials() != 0 || !errors.Is(x.err, context.Canceled) {
			b.t.Errorf("%v", e)
		}
	})
}

func TestRedirectsLeadToTheRulesOfTheNextHost(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"5s"},"deadline":{"header":"X-Deadline-Ms"}`)
	inFakeTime(t, doc, func(b *bench) {
		x := request("GET", "http://orders/redirect?to=http://elsewhere/ok")
		x.err = b.client.DoRedirects(b.t.Context(), x.Request, x.Response, 3)
		b.ok(x, "ok\n")
		headers := b.origin.Headers()
		if len(headers) != 2 || headers[0].Get("X-Deadline-Ms") != "5000" || headers[1].Get("X-Deadline-Ms") != "" {
			b.t.Errorf("the hosts were told %v", headers)
		}
	})
}
