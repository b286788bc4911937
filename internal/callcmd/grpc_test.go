package callcmd_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/internal/callcmd"
)

// rawCodec has messages as they are on the wire.
type rawCodec struct{ encoding.Codec }

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// grpcOrigin starts a server whose methods do what they are called.
func grpcOrigin(t *testing.T) (addr string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	handler := func(_ any, s grpc.ServerStream) error {
		n := calls.Add(1)
		var in []byte
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		method, _ := grpc.MethodFromServerStream(s)
		switch method {
		case "/shop.Orders/Hang":
			<-s.Context().Done()
			return nil
		case "/shop.Orders/Twice":
			if n < 3 {
				return status.Error(codes.Unavailable, "try again")
			}
		case "/shop.Orders/Missing":
			return status.Error(codes.NotFound, "no such order")
		case "/shop.Orders/List":
			for range 3 {
				if err := s.SendMsg(&in); err != nil {
					return err
				}
				if !pause(s.Context(), 300*time.Millisecond) {
					return nil
				}
			}
			return nil
		case "/shop.Orders/Part":
			if err := s.SendMsg(&in); err != nil {
				return err
			}
			<-s.Context().Done()
			return nil
		case "/shop.Orders/Header":
			md, _ := metadata.FromIncomingContext(s.Context())
			in = []byte(strings.Join(md.Get("tenant"), ","))
		}
		return s.SendMsg(&in)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(handler), grpc.ForceServerCodec(rawCodec{}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), calls
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The rows of the engine's contract that gRPC has, on real time.
func TestRowsOfTheContractOnGRPC(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name, rules, method string
		options             callcmd.Options
		attempts, kind      string
		code                string
		messages            int // at most where a limit cut them
		atLeast             time.Duration
	}{
		{
			name: "a hung server ends at the total", method: "Hang",
			rules:    `"timeouts":{"total":"2s","attempt":"800ms"},` + retries,
			options:  callcmd.Options{Idempotent: &yes},
			attempts: "AttemptTimeout AttemptTimeout TotalTimeout", kind: "TotalTimeout", code: "DEADLINE_EXCEEDED", atLeast: 2 * time.Second,
		},
		{
			name: "a code that the policy lists is repeated", method: "Twice",
			rules:    retries,
			options:  callcmd.Options{Idempotent: &yes},
			attempts: "Status Status ok", code: "OK", messages: 1,
		},
		{
			name: "what a server answers is left as it is", method: "Missing",
			rules:    retries,
			attempts: "Status", kind: "Status", code: "NOT_FOUND",
		},
		{
			name: "the caller's deadline is its own", method: "Hang",
			rules:    `"timeouts":{"total":"30s"},` + retries,
			options:  callcmd.Options{Timeout: 100 * time.Millisecond, Idempotent: &yes},
			attempts: "TotalTimeout", kind: "TotalTimeout", code: "DEADLINE_EXCEEDED", atLeast: 100 * time.Millisecond,
		},
		{
			name: "a stream ends its total at the first message", method: "List",
			rules:    `"timeouts":{"total":"500ms"}`,
			options:  callcmd.Options{Stream: true},
			attempts: "ok", code: "OK", messages: 3, atLeast: 900 * time.Millisecond,
		},
		{
			name: "unless a route says so", method: "List",
			rules:    `"routes":[{"name":"list","match":{"grpc":{"service":"shop.Orders"}},"timeouts":{"total":"500ms","scope":"Body"}}]`,
			options:  callcmd.Options{Stream: true},
			attempts: "ok", kind: "TotalTimeout", code: "DEADLINE_EXCEEDED", messages: 2, atLeast: 500 * time.Millisecond,
		},
		{
			name: "a server that stops in good order when its time is up has not sent all", method: "Part",
			rules:    `"routes":[{"name":"part","match":{"grpc":{"service":"shop.Orders"}},"timeouts":{"total":"100ms","scope":"Body"}}]`,
			options:  callcmd.Options{Stream: true},
			attempts: "ok", kind: "TotalTimeout", code: "DEADLINE_EXCEEDED", messages: 1, atLeast: 100 * time.Millisecond,
		},
		{
			name: "a stream that falls silent", method: "List",
			rules:    `"timeouts":{"bodyIdle":"100ms"}`,
			options:  callcmd.Options{Stream: true},
			attempts: "ok", kind: "ReadTimeout", code: "DEADLINE_EXCEEDED", messages: 1, atLeast: 100 * time.Millisecond,
		},
		{
			name: "metadata and message arrive", method: "Header",
			options:  callcmd.Options{Header: http.Header{"Tenant": {"blue"}}, Body: strings.NewReader("message")},
			attempts: "ok", code: "OK", messages: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, calls := grpcOrigin(t)
			o := c.options
			o.Document, o.URL, o.ConnectTo = rules(t, c.rules), "grpc://orders/shop.Orders/"+c.method, addr
			r, err := callcmd.Call(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got := kinds(r); got != c.attempts || int(calls.Load()) != len(r.Attempts) {
				t.Errorf("attempts %q, %d at the server, want %q", got, calls.Load(), c.attempts)
			}
			if r.Kind != c.kind || r.Code != c.code || r.OK != (c.kind == "") || r.Upstream != "orders" {
				t.Errorf("got %+v", r)
			}
			switch {
			case r.Body == nil && c.messages > 0:
				t.Errorf("no response, want %d messages", c.messages)
			case r.Body != nil && (r.Body.Messages > c.messages || r.Body.OK && r.Body.Messages < c.messages):
				t.Errorf("%d messages, want %d", r.Body.Messages, c.messages)
			}
			if time.Duration(r.Took) < c.atLeast {
				t.Errorf("ended after %s, want %s at least", r.Took, c.atLeast)
			}
		})
	}
}

func TestCallsOfGRPCAreTold(t *testing.T) {
	addr, _ := grpcOrigin(t)
	var text bytes.Buffer
	r, err := callcmd.Call(t.Context(), callcmd.Options{
		Document: rules(t, ""), URL: "grpc://orders/shop.Orders/Echo", ConnectTo: addr, Body: strings.NewReader("hello"),
		Attempted: func(a callcmd.Attempt) { callcmd.WriteAttempt(&text, a) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.WriteResult(&text)
	for _, want := range []string{"ok               OK ", "body     1 message of 5 bytes in ", "result   ok, OK, in "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}
