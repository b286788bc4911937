package fasthttpclient_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
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
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{"orders"}
	}
	if rules != "" {
		rules = "," + rules
	}
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":"orders","hosts":["%s"]%s}]}`, strings.Join(hosts, `","`), rules))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return doc
}

// bench is a client of one policy, and perhaps a server.
type bench struct {
	t       testing.TB
	policy  *clientlib.Client
	client  *fasthttpclient.Client
	origin  *clienttest.Origin
	network *clienttest.Network
	events  *recorder
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
	b := &bench{t: t, events: &recorder{}, timers: &clienttest.Timers{}}
	policy, err := clientlib.New(t.Context(), "checkout",
		clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil),
		clientlib.WithObserver(b.events), clientlib.WithClock(b.timers), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	b.policy = policy
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

// recorder is an observer that keeps everything.
type recorder struct {
	mu       sync.Mutex
	attempts []engine.AttemptEvent
	calls    []engine.CallEvent
	bodies   []engine.BodyEvent
	wouldCut []string
	circuits []engine.CircuitState
	started  int
}

func (r *recorder) Recorder(string, string) engine.Recorder { return r }

func (r *recorder) with(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) CallStarted(string) { r.with(func() { r.started++ }) }
func (r *recorder) AttemptDone(e engine.AttemptEvent) {
	r.with(func() { r.attempts = append(r.attempts, e) })
}
func (r *recorder) CallDone(e engine.CallEvent) { r.with(func() { r.calls = append(r.calls, e) }) }
func (r *recorder) BodyDone(e engine.BodyEvent) { r.with(func() { r.bodies = append(r.bodies, e) }) }
func (r *recorder) WouldCut(limit string) {
	r.with(func() { r.wouldCut = append(r.wouldCut, limit) })
}
func (r *recorder) CircuitChanged(s engine.CircuitState) {
	r.with(func() { r.circuits = append(r.circuits, s) })
}

// skips lists why calls were not repeated.
func (r *recorder) skips() string {
	var skips []string
	for _, a := range r.attempts {
		if a.Skip != 0 {
			skips = append(skips, a.Skip.String())
		}
	}
	return strings.Join(skips, ",")
}
