package grpcclient

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// The texts are those that this version of grpc-go makes; those that come from
// real connections are in live_test.go.
func TestTextsHaveTheirKind(t *testing.T) {
	quoted := func(text string) string { return fmt.Sprintf("connection error: desc = %q", text) }
	dial := func(reason string) string { return quoted("transport: Error while dialing: " + reason) }
	for _, c := range []struct {
		text string
		want kinds.Kind
	}{
		{dial("dial tcp 127.0.0.1:1: connect: connection refused"), kinds.ConnectError},
		{dial("dial tcp: lookup nowhere.invalid: no such host"), kinds.DNSError},
		{dial("dial tcp 10.0.0.1:1: i/o timeout"), kinds.ConnectTimeout},
		{dial("context deadline exceeded"), kinds.ConnectTimeout},
		{dial(`quoted "twice"`), kinds.ConnectError},
		{"last connection error: " + dial("refused"), kinds.ConnectError},
		{"latest balancer error: last connection error: " + dial("refused"), kinds.ConnectError},
		{"all SubConns are in TransientFailure, last connection error: " + dial("refused"), kinds.ConnectError},
		{"name resolver error: produced zero addresses", kinds.DNSError},
		{"latest balancer error: name resolver error: dns: A record lookup error: lookup x: no such host", kinds.DNSError},
		{quoted("transport: authentication handshake failed: tls: first record does not look like a TLS handshake"), kinds.TLSError},
		{quoted("transport: authentication handshake failed: remote error: tls: bad certificate"), kinds.TLSError},
		{quoted("transport: authentication handshake failed: context deadline exceeded"), kinds.ConnectTimeout},
		{quoted("transport: authentication handshake failed: EOF"), kinds.ConnectError},
		{quoted("error reading server preface: EOF"), kinds.ConnectError},
		{quoted("error reading server preface: http2: frame too large"), kinds.ProtocolError},
		{quoted("error reading server preface: context deadline exceeded"), kinds.ConnectTimeout},
		{`header key "x" contains value with non-printable ASCII characters`, kinds.Unknown},
		{"header list size to send violates the maximum size (99 bytes) set by server", kinds.Unknown},
		{"transport: per-RPC creds failed due to error: no token", kinds.Unknown},
	} {
		a := &attempt{}
		kind, known := a.localKind(status.Error(codes.Unavailable, c.text))
		if kind != c.want || !known {
			t.Errorf("%s: %v, known %t", c.text, kind, known)
		}
		if !neverSent(status.Error(codes.Unavailable, c.text)) {
			t.Errorf("%s: was sent", c.text)
		}
		// The same words from a server are its own status, however it sends them.
		for name, a := range map[string]*attempt{
			"without headers": {trailer: metadata.Pairs("content-type", "application/grpc")},
			"with metadata":   {trailer: metadata.Pairs("x", "y")},
			"with headers":    {trailer: metadata.MD{}, header: metadata.Pairs("content-type", "application/grpc")},
		} {
			if kind, known := a.localKind(status.Error(codes.Unavailable, c.text)); known && kind != kinds.Status {
				t.Errorf("%s, sent %s: taken for %v", c.text, name, kind)
			}
		}
	}
}

// A server that fails because of its own calls often passes on what they said.
func TestAServersOwnTroubleIsItsAnswer(t *testing.T) {
	for _, text := range []string{
		"stream terminated by RST_STREAM with error code: REFUSED_STREAM",
		"the stream is rejected because server is draining the connection",
		"the connection is draining",
	} {
		err := status.Error(codes.Unavailable, text)
		silent := &attempt{trailer: metadata.MD{}}
		if kind, known := silent.localKind(err); kind != kinds.Unprocessed || !known {
			t.Errorf("%s from the transport: %v", text, kind)
		}
		for name, a := range map[string]*attempt{
			"without headers": {trailer: metadata.Pairs("content-type", "application/grpc")},
			"with metadata":   {trailer: metadata.Pairs("x", "y")},
			"with headers":    {trailer: metadata.MD{}, header: metadata.Pairs("content-type", "application/grpc")},
		} {
			if kind, known := a.localKind(err); known && kind == kinds.Unprocessed {
				t.Errorf("%s, sent %s: taken for unprocessed", text, name)
			}
		}
	}
}

// Of an RPC for which nothing came, or headers that nobody asked for, the text
// has to have the code that the library gives it.
func TestTheLibrarysWordsHaveItsCodes(t *testing.T) {
	for _, text := range []string{
		"stream terminated by RST_STREAM with error code: REFUSED_STREAM",
		"stream terminated by RST_STREAM with error code: INTERNAL_ERROR",
		"the connection is draining", "error reading from server: EOF", "malformed header: x",
		"context deadline exceeded", "grpc: received message larger than max",
		"unexpected HTTP status code received from server: 200 (OK)",
	} {
		for code := codes.Canceled; code <= codes.Unauthenticated+1; code++ {
			a := &attempt{trailer: metadata.MD{}}
			kind, known := a.localKind(status.Error(code, text))
			switch code {
			case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.DataLoss, codes.Unauthenticated + 1:
				if kind != kinds.Status {
					t.Errorf("%s with %s: %v", text, code, kind)
				}
			}
			if known && kind == kinds.Unprocessed && code != codes.Unavailable {
				t.Errorf("%s with %s: %v", text, code, kind)
			}
		}
	}
}

func TestErrorsWithoutAStatusAreUnknown(t *testing.T) {
	a := &attempt{}
	if kind, known := a.localKind(fmt.Errorf("odd")); kind != kinds.Unknown || !known {
		t.Errorf("%v", kind)
	}
	if kind, known := a.localKind(grpc.ErrClientConnClosing); kind != kinds.Cancelled || !known {
		t.Errorf("a closed connection is %v", kind)
	}
}

func TestPushbackIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1500": 1500 * time.Millisecond, "9223372036854775807": math.MaxInt64} {
		if wait, refused := pushback([]string{text}); wait != want || refused {
			t.Errorf("%s: %s, refused %t", text, wait, refused)
		}
	}
}

func FuzzTexts(f *testing.F) {
	f.Add(`connection error: desc = "transport: Error while dialing: \"x`)
	f.Add("stream terminated by RST_STREAM with error code: ")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []*attempt{{}, {trailer: metadata.MD{}}} {
			_, _ = a.localKind(status.Error(codes.Unavailable, text))
		}
	})
}

// grpc-go says DEADLINE_EXCEEDED of a reset that comes after a deadline of its own,
// such as a service config's; which of the two comes first is a race.
func TestAResetAfterADeadlineOfTheLibrarysOwn(t *testing.T) {
	for code, want := range map[codes.Code]kinds.Kind{codes.DeadlineExceeded: kinds.ReadTimeout, codes.Canceled: kinds.Disconnected} {
		a := &attempt{trailer: metadata.MD{}}
		err := status.Error(code, "stream terminated by RST_STREAM with error code: CANCEL")
		if kind, known := a.localKind(err); kind != want || !known {
			t.Errorf("%v: %v, known %t", code, kind, known)
		}
	}
}
