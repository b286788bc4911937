package httpclients

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

type text = wrapperspb.StringValue

const (
	procedure       = "/orders.v1.Orders/Get"
	streamProcedure = "/orders.v1.Orders/Watch"
)

// service is a connect service behind a front that may misbehave.
type service struct {
	url      string
	requests atomic.Int64
	// deadlines counts requests whose handler had a deadline.
	deadlines atomic.Int64
}

// serve starts a service. The front gets the number of a request, from 1, and says
// whether it dealt with it.
func serve(t *testing.T, front func(n int64, w http.ResponseWriter, r *http.Request) bool) *service {
	t.Helper()
	s := &service{}
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
		if _, ok := ctx.Deadline(); ok {
			s.deadlines.Add(1)
		}
		return connect.NewResponse(req.Msg), nil
	}, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(streamProcedure, connect.NewServerStreamHandler(streamProcedure, watch))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := s.requests.Add(1); front == nil || !front(n, w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

// watch sends a message every 120ms, five of them.
func watch(ctx context.Context, req *connect.Request[text], out *connect.ServerStream[text]) error {
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	for range 5 {
		if err := out.Send(req.Msg); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hang never answers.
func hang(_ int64, _ http.ResponseWriter, r *http.Request) bool {
	buffer := make([]byte, 1<<10)
	for {
		// A server sees that its client left once the body is read.
		if _, err := r.Body.Read(buffer); err != nil {
			break
		}
	}
	<-r.Context().Done()
	return true
}

// failFirst answers the first requests with 503.
func failFirst(times int64) func(int64, http.ResponseWriter, *http.Request) bool {
	return func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		if n <= times {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n <= times
	}
}

// stall begins an answer and does not end it.
func stall(_ int64, w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Type", "application/proto")
	_, _ = w.Write([]byte{0x0a})
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
	return true
}

const threeAttempts = `"retry":{"maxAttempts":3,"backoff":{"initial":"1ms","jitter":"None"}}`

func TestConnectCallsObeyThePolicy(t *testing.T) {
	vouched := func(ctx context.Context) context.Context { return clientlib.WithCall(ctx, clientlib.Idempotent(true)) }
	silent := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		name     string
		rules    string
		front    func(int64, http.ResponseWriter, *http.Request) bool
		in       func(context.Context) context.Context
		options  []connect.ClientOption
		code     connect.Code // 0 for success
		kind     failure.Kind // of the error of ours, where there is one
		ours     bool
		requests int64
		least    time.Duration
	}{
		{name: "an answer", rules: threeAttempts, in: silent, requests: 1},
		{
			name: "attempts that hang are repeated where the call site vouches", rules: `"timeouts":{"attempt":"50ms"},` + threeAttempts, front: hang, in: vouched,
			code: connect.CodeDeadlineExceeded, kind: failure.AttemptTimeout, ours: true, requests: 3, least: 150 * time.Millisecond,
		},
		{
			name: "and not where nobody does, being POSTs", rules: `"timeouts":{"attempt":"50ms"},` + threeAttempts, front: hang, in: silent,
			code: connect.CodeDeadlineExceeded, kind: failure.AttemptTimeout, ours: true, requests: 1, least: 50 * time.Millisecond,
		},
		{
			name: "the total covers the body", rules: `"timeouts":{"total":"200ms"},` + threeAttempts, front: stall, in: vouched,
			code: connect.CodeDeadlineExceeded, kind: failure.TotalTimeout, ours: true, requests: 1, least: 200 * time.Millisecond,
		},
		{name: "503 is repeated", rules: threeAttempts, front: failFirst(2), in: vouched, requests: 3},
		{name: "503 at last is connect's own", rules: threeAttempts, front: failFirst(9), in: vouched, code: connect.CodeUnavailable, requests: 3},
		{
			name: "a call without side effects is a GET, and repeated by itself", rules: threeAttempts, front: failFirst(2), in: silent,
			options: []connect.ClientOption{connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)}, requests: 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.front)
			hc := nethttp.NewClient(newClient(t, c.rules))
			t.Cleanup(hc.CloseIdleConnections)
			client := connect.NewClient[text, text](hc, s.url+procedure, c.options...)
			began := time.Now()
			reply, err := client.CallUnary(c.in(t.Context()), connect.NewRequest(wrapperspb.String("question")))
			if elapsed := time.Since(began); elapsed < c.least {
				t.Errorf("ended after %s, before %s", elapsed, c.least)
			}
			if n := s.requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if c.code == 0 {
				if err != nil || reply.Msg.Value != "question" {
					t.Errorf("reply %v, error %v", reply, err)
				}
				return
			}
			expectError(t, err, c.code, c.kind, c.ours)
		})
	}
}

// expectError wants an error of connect's family, and of ours where a limit of the
// policy or the engine made it.
func expectError(t *testing.T, err error, code connect.Code, kind failure.Kind, ours bool) {
	t.Helper()
	var family *connect.Error
	if !errors.As(err, &family) || family.Code() != code {
		t.Errorf("%v (%T) is no *connect.Error with code %v", err, err, code)
	}
	var e *failure.Error
	if errors.As(err, &e) != ours || ours && e.Kind != kind {
		t.Errorf("%v has our error %v, want kind %v: %t", err, e, kind, ours)
	}
	if ours && kind.Timeout() != errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is a context.DeadlineExceeded: %t", err, !kind.Timeout())
	}
}

func TestConnectErrorsBeforeTheServerAreOfBothFamilies(t *testing.T) {
	s := serve(t, failFirst(9))
	hc := nethttp.NewClient(newClient(t, `"circuitBreaker":{"failures":1,"recovery":"1h"}`))
	t.Cleanup(hc.CloseIdleConnections)
	client := connect.NewClient[text, text](hc, s.url+procedure)
	ask := func(ctx context.Context) error {
		_, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("question")))
		return err
	}
	expectError(t, ask(t.Context()), connect.CodeUnavailable, failure.Status, false)
	expectError(t, ask(t.Context()), connect.CodeUnavailable, failure.CircuitOpen, true)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	// connect looks at the context before it makes a request.
	expectError(t, ask(gone), connect.CodeCanceled, failure.Cancelled, false)

	nobody := httptest.NewServer(nil)
	nobody.Close()
	plain := nethttp.NewClient(newClient(t, threeAttempts))
	_, err := connect.NewClient[text, text](plain, nobody.URL+procedure).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("question")))
	expectError(t, err, connect.CodeUnavailable, failure.ConnectError, true)
}

// The header of connect's protocol has the form of ours, so a policy can ask for
// it by name, and the handler's context ends with what is left.
func TestConnectServersHaveTheDeadlineWhereThePolicyNamesTheirHeader(t *testing.T) {
	for _, c := range []struct {
		rules string
		want  int64
	}{
		{`"timeouts":{"total":"10s"}`, 0},
		{`"timeouts":{"total":"10s"},"deadline":{"header":"Connect-Timeout-Ms"}`, 1},
	} {
		s := serve(t, nil)
		hc := nethttp.NewClient(newClient(t, c.rules))
		t.Cleanup(hc.CloseIdleConnections)
		if _, err := connect.NewClient[text, text](hc, s.url+procedure).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("question"))); err != nil {
			t.Error(err)
		}
		if n := s.deadlines.Load(); n != c.want {
			t.Errorf("under %s %d handlers had a deadline, want %d", c.rules, n, c.want)
		}
	}
}

// A stream of connect is a body like any other: the total covers it unless the
// policy says that it ends at the headers.
func TestConnectStreamsAreCutByTheTotalUnlessItsScopeIsHeaders(t *testing.T) {
	for _, c := range []struct {
		name, rules string
		cut         bool
	}{
		{"scope Body", `"timeouts":{"total":"300ms"}`, true},
		{"scope Headers", `"timeouts":{"total":"300ms","scope":"Headers"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			hc := nethttp.NewClient(newClient(t, c.rules))
			t.Cleanup(hc.CloseIdleConnections)
			stream, err := connect.NewClient[text, text](hc, s.url+streamProcedure).CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("x")))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			messages := 0
			for stream.Receive() {
				messages++
			}
			if !c.cut {
				if stream.Err() != nil || messages != 5 {
					t.Errorf("%d messages, then %v; want all five", messages, stream.Err())
				}
				return
			}
			if messages == 5 {
				t.Error("the stream was not cut")
			}
			expectError(t, stream.Err(), connect.CodeDeadlineExceeded, failure.TotalTimeout, true)
		})
	}
}
