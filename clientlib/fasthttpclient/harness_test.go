package fasthttpclient_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

// fasthttp cleans up behind its clients by itself, some seconds after their last use.
// The checks of the battery wait far more than they compute, so more of them run at a
// time than there are processors.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*Client).mCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),    // for ever, once started
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"), // of its server
	)
}

const threeAttempts = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`

// rules writes the rules of the upstream "orders" into a document.
func rules(t testing.TB, rules string, hosts ...string) *document.Document {
	return policytest.Rules(t, rules, hosts...)
}

// bench is a client of one policy, and perhaps a server.
type bench struct {
	t       testing.TB
	policy  *clientlib.Client
	client  *fasthttpclient.Client
	origin  *clienttest.Origin
	network *clienttest.Network
	events  *policytest.Events
	timers  *clienttest.Timers
	start   time.Time
}

// setup of a bench in fake time; the zero value is a misbehaving origin.
type setup struct {
	base    fasthttp.Client // what is to be copied
	handler http.Handler
}

// inFakeTime runs a test in a bubble in which the clock moves only when everybody
// waits, and checks that nothing is left running.
func inFakeTime(t *testing.T, doc *document.Document, test func(b *bench)) {
	t.Helper()
	inFakeTimeWith(t, doc, &setup{}, test)
}

func inFakeTimeWith(t *testing.T, doc *document.Document, s *setup, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		origin := &clienttest.Origin{}
		if s.handler == nil {
			s.handler = origin
		}
		network := clienttest.NewNetwork(s.handler)
		if s.base.Dial == nil && s.base.DialTimeout == nil {
			s.base.Dial = func(addr string) (net.Conn, error) { return network.Dial(context.Background(), "tcp", addr) }
		}
		b := newBench(t, doc, &s.base)
		b.origin, b.network = origin, network
		defer b.close()
		test(b)
	})
}

// close is the end of a bubble.
func (b *bench) close() {
	b.client.CloseIdleConnections()
	if err := b.network.Close(); err != nil {
		b.t.Errorf("close the server: %v", err)
	}
	synctest.Wait()
	if n := b.timers.Live(); n != 0 {
		b.t.Errorf("%d timers were left running", n)
	}
	<-time.After(time.Minute) // of the bubble: fasthttp's cleaners end
}

// newBench makes a client without a server.
func newBench(t testing.TB, doc *document.Document, base *fasthttp.Client) *bench {
	t.Helper()
	b := &bench{t: t, events: &policytest.Events{}, timers: &clienttest.Timers{}}
	policy := policytest.NewClient(t, doc, b.events, b.timers)
	b.policy = policy
	var err error
	if b.client, err = fasthttpclient.New(policy, base); err != nil {
		t.Fatal(err)
	}
	b.start = time.Now()
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		if err := policy.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return b
}

func (b *bench) elapsed() time.Duration { return time.Since(b.start) }

// exchange is a request and its response.
type exchange struct {
	*fasthttp.Request
	*fasthttp.Response
	err error
}

func request(method, url string, body ...string) *exchange {
	x := &exchange{Request: &fasthttp.Request{}, Response: &fasthttp.Response{}}
	x.Request.Header.SetMethod(method)
	x.Request.SetRequestURI(url)
	for _, text := range body {
		x.Request.SetBodyString(text)
	}
	return x
}

func (b *bench) do(ctx context.Context, x *exchange) *exchange {
	x.err = b.client.Do(ctx, x.Request, x.Response)
	return x
}

func (b *bench) get(path string) *exchange {
	return b.do(b.t.Context(), request("GET", "http://orders"+path))
}

// failed fails the test unless the call failed with an error of the engine.
func (b *bench) failed(x *exchange) *clientlib.Error {
	b.t.Helper()
	return failureOf(b.t, x.err)
}

func failureOf(t testing.TB, err error) *clientlib.Error {
	t.Helper()
	var e *clientlib.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is not a *clientlib.Error", err, err)
	}
	return e
}

// ok fails the test unless the call has a response with the body.
func (b *bench) ok(x *exchange, body string) {
	b.t.Helper()
	if x.err != nil {
		b.t.Fatalf("the call failed: %v", x.err)
	}
	if got := string(x.Response.Body()); got != body {
		b.t.Errorf("body %q, want %q", got, body)
	}
}
