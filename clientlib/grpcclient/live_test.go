package grpcclient_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

// dialRaw connects a client under a policy to a raw server.
func dialRaw(t *testing.T, text string, react func(*rawRequest), opts ...grpc.DialOption) (*grpc.ClientConn, *rawServer, *policytest.Events) {
	t.Helper()
	s := startRaw(t, react)
	events := &policytest.Events{}
	c := client(t, text, clientlib.WithObserver(events))
	opts = append(append(grpcclient.DialOptions(c, grpcclient.WithHost("orders:8080")), grpc.WithTransportCredentials(insecure.NewCredentials())), opts...)
	conn, err := grpc.NewClient("passthrough:///"+s.address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, s, events
}

func TestRealFailuresHaveTheirKind(t *testing.T) {
	const refusedWords = "stream terminated by RST_STREAM with error code: REFUSED_STREAM"
	pong := func(r *rawRequest) {
		r.begin()
		r.message(wrapperspb.String("pong"))
	}
	for _, c := range []struct {
		name  string
		react func(*rawRequest)
		kind  kinds.Kind
		code  codes.Code
	}{
		{"refused stream", func(r *rawRequest) { r.reset(http2.ErrCodeRefusedStream) }, kinds.Unprocessed, codes.Unavailable},
		{"going away", func(r *rawRequest) { r.goAway(r.id-1, http2.ErrCodeNo) }, kinds.Unprocessed, codes.Unavailable},
		{"reset", func(r *rawRequest) { r.reset(http2.ErrCodeInternal) }, kinds.Disconnected, codes.Internal},
		{"cancelled by the server", func(r *rawRequest) { r.reset(http2.ErrCodeCancel) }, kinds.Disconnected, codes.Canceled},
		{"protocol error", func(r *rawRequest) { r.reset(http2.ErrCodeProtocol) }, kinds.ProtocolError, codes.Internal},
		{"closed", func(r *rawRequest) { _ = r.conn.Close() }, kinds.Disconnected, codes.Unavailable},
		{"closed after headers", func(r *rawRequest) { r.begin(); _ = r.conn.Close() }, kinds.Disconnected, codes.Unavailable},
		{"closed within a message", func(r *rawRequest) {
			r.begin()
			_ = r.framer.WriteData(r.id, false, []byte{0, 0, 0, 0, 99, 'x'})
			_ = r.conn.Close()
		}, kinds.Disconnected, codes.Unavailable},
		{"not gRPC", func(r *rawRequest) {
			r.headers(false, ":status", "200", "content-type", "text/html")
			_ = r.framer.WriteData(r.id, true, []byte("<html>"))
		}, kinds.ProtocolError, codes.Unknown},
		{"a proxy's 503", func(r *rawRequest) { r.headers(true, ":status", "503", "content-type", "text/html") }, kinds.Status, codes.Unavailable},
		{"a proxy's 404", func(r *rawRequest) { r.headers(true, ":status", "404", "content-type", "text/html") }, kinds.Status, codes.Unimplemented},
		{"no trailers", func(r *rawRequest) { pong(r); _ = r.framer.WriteData(r.id, true, nil) }, kinds.ProtocolError, codes.Internal},
		{"no message", func(r *rawRequest) { r.begin(); r.end("0", "") }, kinds.ProtocolError, codes.Internal},
		{"a status that is no number", func(r *rawRequest) {
			r.headers(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "fine")
		}, kinds.ProtocolError, codes.Unknown},
		{"a message of another type", func(r *rawRequest) {
			r.begin()
			_ = r.framer.WriteData(r.id, false, []byte{0, 0, 0, 0, 2, 0xff, 0xff})
			r.end("0", "")
		}, kinds.BodyError, codes.Internal},
		{"a message beyond the limit", func(r *rawRequest) {
			r.begin()
			r.message(wrapperspb.String(strings.Repeat("x", 2000)))
			r.end("0", "")
		}, kinds.BodyError, codes.ResourceExhausted},
		{"the words of another failure", func(r *rawRequest) { r.refuse("14", refusedWords) }, kinds.Status, codes.Unavailable},
		{"an error after a message", func(r *rawRequest) { pong(r); r.end("13", "late") }, kinds.Status, codes.Internal},
		{"going away within an answer", func(r *rawRequest) { pong(r); r.goAway(r.id-1, http2.ErrCodeNo) }, kinds.Disconnected, codes.Unavailable},
		{"a proxy's 502", func(r *rawRequest) {
			r.headers(false, ":status", "502", "content-type", "text/html")
			_ = r.framer.WriteData(r.id, true, []byte("<html>"))
		}, kinds.Status, codes.Unavailable},
		{"a reply twice", func(r *rawRequest) { pong(r); pong(r) }, kinds.ProtocolError, codes.Internal},
		{"a second reply", func(r *rawRequest) { pong(r); r.message(wrapperspb.String("pong")); r.end("0", "") }, kinds.ProtocolError, codes.Internal},
		{"no status", func(r *rawRequest) { pong(r); r.headers(true, "x", "y") }, kinds.Status, codes.Unknown},
		{"a code beyond all numbers", func(r *rawRequest) { r.refuse("99999999999999999999", "odd") }, kinds.ProtocolError, codes.Unknown},
		{"a negative code", func(r *rawRequest) { r.refuse("-1", "odd") }, kinds.Status, codes.Code(1<<32 - 1)},
		{"compressed in no way", func(r *rawRequest) {
			r.begin()
			_ = r.framer.WriteData(r.id, false, []byte{1, 0, 0, 0, 0})
			r.end("0", "")
		}, kinds.ProtocolError, codes.Internal},
		{"compressed in an unknown way", func(r *rawRequest) {
			r.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "zzz")
			_ = r.framer.WriteData(r.id, false, []byte{1, 0, 0, 0, 1, 'x'})
			r.end("0", "")
		}, kinds.BodyError, codes.Internal},
		{"compressed, and broken", func(r *rawRequest) {
			r.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip")
			_ = r.framer.WriteData(r.id, false, []byte{1, 0, 0, 0, 1, 'x'})
			r.end("0", "")
		}, kinds.BodyError, codes.Internal},
		{"compressed beyond the limit", func(r *rawRequest) {
			r.headers(false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip")
			bomb := zipped(1 << 20)
			_ = r.framer.WriteData(r.id, false, append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(bomb))), bomb...))
			r.end("0", "")
		}, kinds.BodyError, codes.ResourceExhausted},
		{"a length that lies", func(r *rawRequest) {
			r.begin()
			_ = r.framer.WriteData(r.id, false, []byte{0, 0, 0, 0, 99, 'x'})
			r.end("0", "")
		}, kinds.ProtocolError, codes.Internal},
		{"a length of 4 GiB", func(r *rawRequest) { r.begin(); _ = r.framer.WriteData(r.id, false, []byte{0, 255, 255, 255, 255}) }, kinds.BodyError, codes.ResourceExhausted},
		{"headers that cannot be decoded", func(r *rawRequest) {
			_ = r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.id, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}, kinds.Disconnected, codes.Unavailable},
		{"a code that nobody knows", func(r *rawRequest) { r.refuse("9999", "odd") }, kinds.Status, codes.Code(9999)},
		{"the words of another failure after headers", func(r *rawRequest) { r.begin(); r.end("5", refusedWords) }, kinds.Status, codes.NotFound},
		{"a limit of the server's own", func(r *rawRequest) { pong(r); r.end("4", "the query took too long") }, kinds.Status, codes.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const rules = `"timeouts":{"total":"20s"},"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`
			conn, _, events := dialRaw(t, rules, c.react, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1000)))
			err := roundTrip(t.Context(), conn)
			var e *clientlib.Error
			if errors.As(err, &e) == (c.kind == kinds.Status) || status.Code(err) != c.code {
				t.Errorf("%v (%T), code %s", err, err, status.Code(err))
			}
			if got := last(t, events); got.OK || got.Kind != c.kind || e != nil && e.Kind != c.kind {
				t.Errorf("kind %v: %v", got.Kind, err)
			}
		})
	}
}

// zipped returns that many bytes of nothing, compressed.
func zipped(size int) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, size))
	_ = w.Close()
	return b.Bytes()
}

// golang/go#20985: what a server did not process is repeated, whoever says what,
// and counted.
func TestWhatWasNotProcessedIsRepeated(t *testing.T) {
	for name, decline := range map[string]func(*rawRequest){
		"refused stream": func(r *rawRequest) { r.reset(http2.ErrCodeRefusedStream) },
		"going away":     func(r *rawRequest) { r.goAway(r.id-1, http2.ErrCodeNo) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, server, events := dialRaw(t, `"timeouts":{"total":"20s"},"retry":{"maxAttempts":4,"backoff":{"initial":"1ms"}}`, func(r *rawRequest) {
				if r.number <= 3 {
					decline(r)
					return
				}
				r.begin()
				r.message(wrapperspb.String("pong"))
				r.end("0", "")
			})
			ctx := clientlib.WithCall(t.Context(), clientlib.Idempotent(false))
			if err := roundTrip(ctx, conn); err != nil {
				t.Error(err)
			}
			if n := server.requests(); n != 4 || last(t, events).Attempts != 4 {
				t.Errorf("%d requests, %d told of", n, last(t, events).Attempts)
			}
			for i, a := range events.Attempts()[:3] {
				if a.Kind != kinds.Unprocessed {
					t.Errorf("attempt %d: %v", i+1, a.Kind)
				}
			}
		})
	}
}

// A server that answered with headers was at work, whatever it says then.
func TestTheWordsOfAnotherFailureAreNotBelieved(t *testing.T) {
	conn, server, _ := dialRaw(t, `"timeouts":{"total":"20s"},"retry":{"maxAttempts":4}`, func(r *rawRequest) {
		r.begin()
		r.end("14", "stream terminated by RST_STREAM with error code: REFUSED_STREAM")
	})
	if err := roundTrip(t.Context(), conn); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if n := server.requests(); n != 1 {
		t.Errorf("%d requests: one that may have been processed was made again", n)
	}
}

// What the policy does not list is not repeated, in whatever words it comes.
func TestNoWordsHaveACodeRepeatedThatIsNotListed(t *testing.T) {
	for _, text := range []string{"the connection is draining", "stream terminated by RST_STREAM with error code: REFUSED_STREAM", "transport is closing", "context deadline exceeded"} {
		conn, server, events := dialRaw(t, `"timeouts":{"total":"20s"},"retry":{"maxAttempts":4,"retryableGRPCCodes":["UNAVAILABLE"]}`, func(r *rawRequest) {
			r.begin()
			r.end("5", text)
		})
		if err := roundTrip(t.Context(), conn); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
		if n := server.requests(); n != 1 || last(t, events).Kind != kinds.Status {
			t.Errorf("%s: %d requests, event %+v", text, n, last(t, events))
		}
	}
}

// A stream that was not processed is grpc-go's to repeat, once.
func TestAStreamThatWasNotProcessedIsLeftToTheLibrary(t *testing.T) {
	conn, server, events := dialRaw(t, `"timeouts":{"total":"20s"},"retry":{"maxAttempts":4}`, func(r *rawRequest) {
		r.reset(http2.ErrCodeRefusedStream)
	})
	s, err := conn.NewStream(t.Context(), serverStream, watch)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(ping); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(reply()); failure(t, err).Kind != kinds.Unprocessed {
		t.Error(err)
	}
	if n := server.requests(); n != 2 || last(t, events).Attempts != 1 || last(t, events).Skip != kinds.SkipNonReplayable {
		t.Errorf("%d requests, event %+v", n, last(t, events))
	}
}

// The health of a connection is the business of grpc-go's keepalive; without it an
// attempt's ceiling still ends each call.
func TestADeadConnectionEndsWithTheCeiling(t *testing.T) {
	conn, _, _ := dialRaw(t, `"timeouts":{"attempt":"50ms"}`, func(*rawRequest) {})
	if err := roundTrip(t.Context(), conn); failure(t, err).Kind != kinds.AttemptTimeout {
		t.Error(err)
	}
}
