package fasthttpserver_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient/fasthttpserver"
	"github.com/valyala/fasthttp"
)

// served is what a handler saw of its budget.
type served struct {
	status  int
	left    time.Duration
	limited bool
	value   any
	told    string
}

// serve hands one request over a real connection to a handler behind the
// middleware.
func serve(t *testing.T, change func(*fasthttp.Request), opts ...deadline.Option) served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out served
	observer := &clienttest.Deadlines{}
	handler := fasthttpserver.Middleware(func(handler *fasthttp.RequestCtx) {
		ctx := fasthttpserver.Context(handler)
		out.left, out.limited = deadline.Remaining(ctx)
		out.value = ctx.Value("mine")
		if ctx.Done() != nil {
			t.Error("the context ends with the server")
		}
	}, append(opts, deadline.WithObserver(observer))...)
	server := &fasthttp.Server{DisableHeaderNamesNormalizing: true, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.SetUserValue("mine", 1)
		handler(ctx)
	}}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	client := &fasthttp.Client{}
	req, resp := &fasthttp.Request{}, &fasthttp.Response{}
	req.SetRequestURI("http://" + l.Addr().String())
	change(req)
	if err := client.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	out.status, out.told = resp.StatusCode(), observer.Take()
	return out
}

func TestARequestBringsItsBudget(t *testing.T) {
	for name, spelled := range map[string]string{"canonical": "X-Deadline-Ms", "as it is": "x-DEADLINE-ms"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(req *fasthttp.Request) {
				req.Header.DisableNormalizing()
				req.Header.Set(spelled, "60000")
			})
			if !s.limited || s.left <= 0 || s.left > time.Minute || s.value != 1 {
				t.Errorf("%+v, want what is left of a minute", s)
			}
			if s.told != "fasthttp:accepted" {
				t.Errorf("told %q", s.told)
			}
		})
	}
}

func TestARequestWithoutADeadlineHasNoBudget(t *testing.T) {
	if s := serve(t, func(*fasthttp.Request) {}); s.limited || s.status != 200 || s.value != 1 || s.told != "" {
		t.Errorf("%+v", s)
	}
}

func TestAStrangerSetsNoBudget(t *testing.T) {
	nobody := deadline.TrustFunc(func(*deadline.Incoming) bool { return false })
	s := serve(t, func(req *fasthttp.Request) { req.Header.Set("X-Deadline-Ms", "1") }, nobody)
	if s.limited || s.status != 200 || s.told != "fasthttp:untrusted" {
		t.Errorf("%+v", s)
	}
}

func TestARequestWithNothingLeftCanBeRefused(t *testing.T) {
	s := serve(t, func(req *fasthttp.Request) { req.Header.Set("X-Deadline-Ms", "0") }, deadline.RefuseSpent())
	if s.status != fasthttp.StatusGatewayTimeout || s.value != nil || s.told != "fasthttp:spent" {
		t.Errorf("%+v", s)
	}
}

func TestOneMiddlewareInsideOfAnother(t *testing.T) {
	var left time.Duration
	inner := fasthttpserver.Middleware(func(handler *fasthttp.RequestCtx) {
		left, _ = deadline.Remaining(fasthttpserver.Context(handler))
	}, deadline.TrustEveryone(), deadline.Headers(deadline.Milliseconds("X-Inner")))
	outer := fasthttpserver.Middleware(inner, deadline.TrustEveryone())
	var handler fasthttp.RequestCtx
	var req fasthttp.Request
	req.Header.Set("X-Deadline-Ms", "1000")
	req.Header.Set("X-Inner", "60000")
	handler.Init(&req, nil, nil)
	outer(&handler)
	if left <= 0 || left > time.Second {
		t.Errorf("%s are left, want what the tighter one says", left)
	}
	if _, ok := deadline.From(context.WithoutCancel(&handler)); ok {
		t.Error("the budget is somewhere else than in Context")
	}
}
