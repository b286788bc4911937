package callcmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/callcmd"
)

// rules writes the rules of the upstream "orders".
func rules(t *testing.T, text string) *document.Document {
	t.Helper()
	if text != "" {
		text = "," + text
	}
	doc, err := document.Parse([]byte(fmt.Sprintf(`{"schema":1,"client":"checkout","upstreams":[{"name":"orders","hosts":["orders"]%s}]}`, text)))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return doc
}

const retries = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`

// kinds writes the attempts of a result, such as "AttemptTimeout ok".
func kinds(r *callcmd.Result) string {
	var words []string
	for _, a := range r.Attempts {
		word := a.Kind
		if a.OK {
			word = "ok"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// The rows of the engine's contract, on real time against a real server. Only
// what does not depend on how busy the machine is is compared: kinds, numbers,
// reasons, and that a limit was not early.
func TestRowsOfTheContractOnRealTime(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name, rules, path string
		options           callcmd.Options
		attempts          string
		kind, skip        string
		source, field     string
		bytes             int64 // of the body, -1 for no body; at most where a limit cut it
		atLeast           time.Duration
	}{
		{
			name: "hung server ends at the total", path: "/hang",
			rules:    `"timeouts":{"total":"2s","attempt":"800ms"},` + retries,
			attempts: "AttemptTimeout AttemptTimeout TotalTimeout",
			kind:     "TotalTimeout", source: "policy", field: "timeouts.total", bytes: -1, atLeast: 2 * time.Second,
		},
		{
			name: "hung server ends after the last ceiling", path: "/hang",
			rules:    `"timeouts":{"total":"30s","attempt":"50ms"},` + retries,
			attempts: "AttemptTimeout AttemptTimeout AttemptTimeout",
			kind:     "AttemptTimeout", skip: "attempts", field: "timeouts.attempt", bytes: -1, atLeast: 150 * time.Millisecond,
		},
		{
			name: "the total covers the body", path: "/drip?n=8&every=400ms",
			rules:    `"timeouts":{"total":"1s"}`,
			attempts: "ok", kind: "TotalTimeout", source: "policy", field: "timeouts.total", bytes: 2, atLeast: time.Second,
		},
		{
			name: "unless its scope is the headers", path: "/drip?n=4&every=400ms",
			rules:    `"timeouts":{"total":"1s","scope":"Headers"}`,
			attempts: "ok", bytes: 4, atLeast: 1600 * time.Millisecond,
		},
		{
			name: "slow headers are a read timeout", path: "/slow?delay=30s",
			rules:    `"timeouts":{"responseHeader":"50ms"},` + retries,
			attempts: "ReadTimeout ReadTimeout ReadTimeout",
			kind:     "ReadTimeout", skip: "attempts", field: "timeouts.responseHeader", bytes: -1,
		},
		{
			name: "the caller's deadline is never repeated", path: "/hang",
			rules:    `"timeouts":{"total":"30s"},` + retries,
			options:  callcmd.Options{Timeout: 100 * time.Millisecond},
			attempts: "TotalTimeout", kind: "TotalTimeout", source: "caller", bytes: -1, atLeast: 100 * time.Millisecond,
		},
		{
			name: "the budget of the request being served is tighter", path: "/hang",
			rules:    `"timeouts":{"total":"30s"}`,
			options:  callcmd.Options{Budget: 100 * time.Millisecond},
			attempts: "TotalTimeout", kind: "TotalTimeout", source: "budget", bytes: -1, atLeast: 100 * time.Millisecond,
		},
		{
			name: "detached work has what the policy says", path: "/slow?delay=300ms",
			rules:    `"timeouts":{"total":"30s"}`,
			options:  callcmd.Options{Budget: 100 * time.Millisecond, Detach: true},
			attempts: "ok", bytes: 5, atLeast: 300 * time.Millisecond,
		},
		{
			name: "detached work has its caller's deadline all the same", path: "/hang",
			rules:    `"timeouts":{"total":"30s"}`,
			options:  callcmd.Options{Budget: time.Minute, Detach: true, Timeout: 100 * time.Millisecond},
			attempts: "TotalTimeout", kind: "TotalTimeout", source: "caller", bytes: -1, atLeast: 100 * time.Millisecond,
		},
		{
			name: "an upgrade ends the total at the headers", path: "/upgrade?n=3&every=500ms",
			rules:    `"timeouts":{"total":"1s"}`,
			options:  callcmd.Options{Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}},
			attempts: "ok", bytes: 3, atLeast: 1500 * time.Millisecond,
		},
		{
			name: "a forgotten body ends with the total", path: "/drip?n=100&every=100ms",
			rules:    `"timeouts":{"total":"500ms"}`,
			options:  callcmd.Options{HoldBody: time.Second},
			attempts: "ok", kind: "TotalTimeout", source: "policy", field: "timeouts.total", bytes: 10, atLeast: time.Second,
		},
		{
			name: "Retry-After beyond the deadline", path: "/status?code=503&retry_after=20",
			rules:    `"timeouts":{"total":"10s"},` + retries,
			attempts: "Status", kind: "Status", skip: "deadline", bytes: 7,
		},
		{
			name: "POST is not repeated", path: "/slow?delay=30s",
			rules:    `"timeouts":{"responseHeader":"50ms"},` + retries,
			options:  callcmd.Options{Method: http.MethodPost},
			attempts: "ReadTimeout", kind: "ReadTimeout", skip: "method", field: "timeouts.responseHeader", bytes: -1,
		},
		{
			name: "unless the call site vouches for it", path: "/status?code=503&times=1&key=vouched",
			rules:    retries,
			options:  callcmd.Options{Method: http.MethodPost, Idempotent: &yes},
			attempts: "Status ok", bytes: 3,
		},
		{
			name: "a body that cannot be rewound", path: "/status?code=503&key=stream",
			rules:    `"retry":{"maxAttempts":3,"maxReplayBytes":4}`,
			options:  callcmd.Options{Method: http.MethodPut, Body: io.MultiReader(strings.NewReader("longer than four bytes"))},
			attempts: "Status", kind: "Status", skip: "non_replayable", bytes: 7,
		},
		{
			name: "redirects share one call", path: "/redirect?n=3",
			rules:    `"timeouts":{"total":"30s"}`,
			attempts: "ok ok ok ok", bytes: 3,
		},
		{
			name: "a stream ends its total at the headers", path: "/events?n=3&every=500ms",
			rules:    `"timeouts":{"total":"1s"}`,
			attempts: "ok", bytes: 27, atLeast: 1500 * time.Millisecond,
		},
		{
			name: "unless a route says so", path: "/events?n=8&every=300ms",
			rules:    `"routes":[{"name":"events","match":{"path":"/events"},"timeouts":{"total":"500ms","scope":"Body"}}]`,
			attempts: "ok", kind: "TotalTimeout", source: "policy", field: "timeouts.total", bytes: 9, atLeast: 500 * time.Millisecond,
		},
		{
			name: "a body that falls silent", path: "/drip?n=2&every=30s",
			rules:    `"timeouts":{"bodyIdle":"50ms"}`,
			attempts: "ok", kind: "ReadTimeout", field: "timeouts.bodyIdle", bytes: 0, atLeast: 50 * time.Millisecond,
		},
		{
			name: "the last 503 is a response", path: "/status?code=503&key=last",
			rules:    retries,
			attempts: "Status Status Status", kind: "Status", skip: "attempts", bytes: 7,
		},
		{
			name: "Shadow changes nothing", path: "/slow?delay=200ms",
			rules:    `"mode":"Shadow","timeouts":{"total":"100ms"}`,
			attempts: "ok", bytes: 5, atLeast: 200 * time.Millisecond,
		},
		{
			name: "a broken connection", path: "/reset",
			rules: "", attempts: "Disconnected", kind: "Disconnected", bytes: -1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&clienttest.Origin{})
			defer server.Close()
			o := c.options
			o.Document, o.URL, o.ConnectTo = rules(t, c.rules), "http://orders"+c.path, server.Listener.Addr().String()
			r, err := callcmd.Call(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got := kinds(r); got != c.attempts {
				t.Errorf("attempts %q, want %q", got, c.attempts)
			}
			if r.Kind != c.kind || r.Skip != c.skip || r.Source != c.source || r.Field != c.field || r.OK != (c.kind == "") {
				t.Errorf("kind %q skip %q source %q field %q ok %v, want %q %q %q %q", r.Kind, r.Skip, r.Source, r.Field, r.OK, c.kind, c.skip, c.source, c.field)
			}
			switch {
			case r.Body == nil && c.bytes >= 0:
				t.Errorf("no body, want %d bytes", c.bytes)
			case r.Body != nil && (r.Body.Bytes > c.bytes || r.Body.OK && r.Body.Bytes < c.bytes):
				t.Errorf("%d bytes, want %d", r.Body.Bytes, c.bytes)
			}
			if time.Duration(r.Took) < c.atLeast {
				t.Errorf("ended after %s, want %s at least", r.Took, c.atLeast)
			}
			if strings.Contains(c.rules, "Shadow") != (len(r.WouldCut) > 0) {
				t.Errorf("would cut %v", r.WouldCut)
			}
		})
	}
}

func TestWhatTheCallerCancelsIsNeverRepeated(t *testing.T) {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	var cancel context.CancelFunc
	c, err := callcmd.NewCaller(callcmd.Options{
		Document: rules(t, `"timeouts":{"total":"30s","attempt":"50ms"},"retry":{"maxAttempts":10,"backoff":{"initial":"10s","max":"10s","jitter":"None"}}`),
		URL:      "http://orders/hang", ConnectTo: server.Listener.Addr().String(),
		Attempted: func(callcmd.Attempt) { cancel() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // the next call of the same caller has nothing of the first one
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		if r := c.Call(ctx); r.OK || r.Kind != "Cancelled" || kinds(r) != "AttemptTimeout" || r.Source != "caller" {
			t.Errorf("got %+v", r)
		}
		cancel()
	}
}

// The document is swapped while an attempt hangs: the call ends by the limits
// that it began with, the next one by the new ones.
func TestACallKeepsTheDocumentThatItBeganWith(t *testing.T) {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	before := rules(t, `"timeouts":{"total":"30s","attempt":"100ms"},`+retries)
	after := rules(t, `"timeouts":{"total":"200ms"}`)
	var c *callcmd.Caller
	c, err := callcmd.NewCaller(callcmd.Options{
		Document: before, URL: "http://orders/hang", ConnectTo: server.Listener.Addr().String(),
		Attempted: func(callcmd.Attempt) { c.Use(after) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r := c.Call(t.Context()); kinds(r) != "AttemptTimeout AttemptTimeout AttemptTimeout" || r.Revision != before.Revision {
		t.Errorf("the call under way: %+v", r)
	}
	if r := c.Call(t.Context()); kinds(r) != "TotalTimeout" || r.Revision != after.Revision || time.Duration(r.Limit) != 200*time.Millisecond {
		t.Errorf("the next call: %+v", r)
	}
}

func TestCallsOfOneCallerShareTheirCircuit(t *testing.T) {
	origin := &clienttest.Origin{}
	server := httptest.NewServer(origin)
	defer server.Close()
	c, err := callcmd.NewCaller(callcmd.Options{
		Document: rules(t, `"circuitBreaker":{"failures":2,"recovery":"1h"}`), Body: strings.NewReader("again"), Method: http.MethodPut,
		URL: "http://orders/status?code=503", ConnectTo: server.Listener.Addr().String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got []string
	for range 3 {
		got = append(got, c.Call(t.Context()).Kind)
	}
	if strings.Join(got, " ") != "Status Status CircuitOpen" || origin.Requests("/status") != 2 {
		t.Errorf("got %v after %d requests", got, origin.Requests("/status"))
	}
}

// The peer says that it did not act on the request: any method may be repeated,
// by net/http itself or by the engine.
func TestRefusedStreamIsRepeatedWhateverTheMethod(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &clienttest.FrameServer{React: func(s *clienttest.Stream) {
		if s.Number == 1 {
			s.GoAway(0, clienttest.H2NoError)
			s.Close()
			return
		}
		s.Headers(true)
	}}
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	r, err := callcmd.Call(t.Context(), callcmd.Options{
		Document: rules(t, `"timeouts":{"total":"30s"},`+retries), URL: "http://orders/", Method: http.MethodPost, HTTP2: true, ConnectTo: l.Addr().String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || f.Requests() != 2 {
		t.Errorf("the server saw %d requests, want 2: %+v", f.Requests(), r)
	}
	_ = l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestCertificatesToTrustAreThoseOfTheURLsHost(t *testing.T) {
	server := httptest.NewTLSServer(&clienttest.Origin{})
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	o := callcmd.Options{Document: rules(t, ""), URL: "https://example.com/ok", ConnectTo: server.Listener.Addr().String()}
	r, err := callcmd.Call(t.Context(), o)
	if err != nil || r.Kind != "TLSError" {
		t.Errorf("without the certificate: %+v, %v", r, err)
	}
	o.CACerts = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if r, err = callcmd.Call(t.Context(), o); err != nil || !r.OK {
		t.Errorf("with the certificate: %+v, %v", r, err)
	}
}

func TestHostThatNoPolicyNamesIsCalledAndSaidSo(t *testing.T) {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	r, err := callcmd.Call(t.Context(), callcmd.Options{Document: rules(t, ""), URL: server.URL + "/ok"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	r.WriteResult(&text)
	if !r.OK || len(r.Attempts) != 1 || !strings.Contains(text.String(), "no upstream of the document names the host") {
		t.Errorf("got %+v\n%s", r, text.String())
	}
}

func TestWrongOptionsAreNoResult(t *testing.T) {
	doc := rules(t, "")
	for _, c := range []struct {
		options callcmd.Options
		want    string
	}{
		{callcmd.Options{URL: "http://orders/"}, "no document"},
		{callcmd.Options{Document: doc, URL: "orders/x"}, "write http://HOST"},
		{callcmd.Options{Document: doc, URL: "http:///x"}, "has no host"},
		{callcmd.Options{Document: doc, URL: "grpc://orders/Method"}, "write grpc://HOST:PORT/package.Service/Method"},
		{callcmd.Options{Document: doc, URL: "grpc://orders/a.B/C", Method: "GET"}, "has no HTTP method"},
		{callcmd.Options{Document: doc, URL: "grpcs://orders/a.B/C", CACerts: []byte("x")}, "no certificate in PEM"},
		{callcmd.Options{Document: doc, URL: "http://orders/", Method: "A B"}, "invalid method"},
		{callcmd.Options{Document: doc, URL: "http://orders/", ConnectTo: "localhost"}, "write HOST:PORT"},
		{callcmd.Options{Document: doc, URL: "https://orders/", CACerts: []byte("x")}, "no certificate in PEM"},
	} {
		if _, err := callcmd.Call(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestAttemptsAreToldAsTheyEnd(t *testing.T) {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	var text bytes.Buffer
	callcmd.WriteHead(&text)
	r, err := callcmd.Call(t.Context(), callcmd.Options{
		Document: rules(t, retries), URL: "http://orders/status?code=503&times=1", ConnectTo: server.Listener.Addr().String(),
		Attempted: func(a callcmd.Attempt) { callcmd.WriteAttempt(&text, a) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.WriteResult(&text)
	for _, want := range []string{"ATTEMPT ", "retry after 10ms", "done", "body     3 bytes in ", "result   ok, 200, in ", "(upstream orders)"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

func TestResultHasMillisecondsInJSON(t *testing.T) {
	left := callcmd.Millis(600 * time.Millisecond)
	r := callcmd.Result{
		Method: "GET", URL: "http://orders/", Took: callcmd.Millis(1500 * time.Microsecond),
		Attempts: []callcmd.Attempt{{Number: 1, Method: "GET", Kind: "AttemptTimeout", Left: &left, Retried: true, Wait: callcmd.Millis(10 * time.Millisecond)}},
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tookMs":1.5`, `"leftMs":600`, `"waitMs":10`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is missing in %s", want, data)
		}
	}
	var back callcmd.Result
	if err := json.Unmarshal(data, &back); err != nil || back.Took != r.Took || *back.Attempts[0].Left != left {
		t.Errorf("read back %+v, %v", back, err)
	}
}
