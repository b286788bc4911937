package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// rules writes the rules of the upstream "orders" into a document.
func rules(t testing.TB, rules string) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(fmt.Sprintf(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"]%s}]}`, prefixed(rules))))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return doc
}

func prefixed(s string) string {
	if s == "" {
		return ""
	}
	return "," + s
}

// bench is a client of one policy and a misbehaving server, in fake time.
type bench struct {
	t         *testing.T
	client    *clientlib.Client
	http      *http.Client
	transport *nethttp.Transport
	origin    *clienttest.Origin
	network   *clienttest.Network
	events    *recorder
	timers    *clienttest.Timers
	start     time.Time
}

// inFakeTime runs a test in a bubble in which the clock moves only when
// everybody waits, and checks that nothing is left running.
func inFakeTime(t *testing.T, doc *document.Document, test func(b *bench)) {
	t.Helper()
	inFakeTimeWith(t, doc, nil, test)
}

// inFakeTimeWith is inFakeTime with a server of the test's own.
func inFakeTimeWith(t *testing.T, doc *document.Document, h http.Handler, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		origin := &clienttest.Origin{}
		if h == nil {
			h = origin
		}
		network := clienttest.NewNetwork(h)
		b := newBench(t, doc, network.Transport())
		b.origin, b.network = origin, network
		test(b)
		b.http.CloseIdleConnections()
		if err := b.client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
		if err := b.network.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		synctest.Wait()
		if n := b.timers.Live(); n != 0 {
			t.Errorf("%d timers were left running", n)
		}
	})
}

// newBench makes a client without a server, on top of base.
func newBench(t *testing.T, doc *document.Document, base http.RoundTripper) *bench {
	t.Helper()
	b := &bench{t: t, events: &recorder{}, timers: &clienttest.Timers{}}
	client, err := clientlib.New(t.Context(), "checkout",
		clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil),
		clientlib.WithObserver(b.events), clientlib.WithClock(b.timers), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	b.client = client
	b.transport = nethttp.NewTransport(client, base)
	b.http = &http.Client{Transport: b.transport}
	b.start = time.Now()
	return b
}

func (b *bench) elapsed() time.Duration { return time.Since(b.start) }

func (b *bench) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://orders"+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	return req
}

func (b *bench) get(path string) (*http.Response, error) {
	return b.http.Do(b.request(b.t.Context(), http.MethodGet, path, nil))
}

// mustGet fails the test on an error.
func (b *bench) mustGet(path string) *http.Response {
	b.t.Helper()
	resp, err := b.get(path)
	if err != nil {
		b.t.Fatalf("GET %s: %v", path, err)
	}
	return resp
}

// failure fails the test unless err is an error of the engine.
func failure(t testing.TB, err error) *clientlib.Error {
	t.Helper()
	var e *clientlib.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is not a *clientlib.Error", err, err)
	}
	return e
}

func readAll(t testing.TB, resp *http.Response) (string, error) {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Errorf("close the body: %v", cerr)
	}
	return string(data), err
}

// recorder is an observer that keeps everything as text.
type recorder struct {
	lock     chan struct{}
	attempts []engine.AttemptEvent
	calls    []engine.CallEvent
	bodies   []engine.BodyEvent
	wouldCut []string
	circuits []engine.CircuitState
	started  int
}

func (r *recorder) Recorder(string, string) engine.Recorder {
	if r.lock == nil {
		r.lock = make(chan struct{}, 1)
	}
	return r
}

func (r *recorder) with(f func()) {
	r.lock <- struct{}{}
	defer func() { <-r.lock }()
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

// vouch says whether the calls of a context may be made twice.
func vouch(ctx context.Context, yes bool) context.Context {
	return clientlib.WithCall(ctx, clientlib.Idempotent(yes))
}
