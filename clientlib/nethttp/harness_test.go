package nethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// rules writes the rules of the upstream "orders" into a document.
func rules(t testing.TB, rules string, hosts ...string) *document.Document {
	return policytest.Rules(t, rules, hosts...)
}

// bench is a client of one policy and a misbehaving server, in fake time.
type bench struct {
	t         *testing.T
	client    *clientlib.Client
	http      *http.Client
	transport *nethttp.Transport
	origin    *clienttest.Origin
	network   *clienttest.Network
	events    *policytest.Events
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
	b := &bench{t: t, events: &policytest.Events{}, timers: &clienttest.Timers{}}
	client := policytest.NewClient(t, doc, b.events, b.timers)
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

// vouch says whether the calls of a context may be made twice.
func vouch(ctx context.Context, yes bool) context.Context {
	return clientlib.WithCall(ctx, clientlib.Idempotent(yes))
}
