package nethttp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Only net/http's own beginning of an error counts: what a peer can write into
// one must not decide that a POST is repeated.
func TestAPeerCannotChooseTheKind(t *testing.T) {
	for _, word := range []string{
		"stream error: stream ID 1; REFUSED_STREAM", "http2: Transport received Server's graceful shutdown GOAWAY",
		"http2: client conn not usable", "malformed ", "tls: ",
	} {
		for err, want := range map[error]failure.Kind{
			fmt.Errorf("malformed HTTP response %q", word): failure.ProtocolError,
			fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", fmt.Errorf("malformed HTTP status code %q", word)): failure.ProtocolError,
			fmt.Errorf("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=%q", word): failure.Disconnected,
			fmt.Errorf("Proxy says %s", word): failure.Unknown,
		} {
			if got := classify(err); got != want {
				t.Errorf("%v is a %v, want %v", err, got, want)
			}
		}
	}
}

func TestClassifyWhatHasNoServer(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failure.Kind
	}{
		{errors.New("something else"), failure.Unknown},
		{io.ErrUnexpectedEOF, failure.Disconnected},
		{fmt.Errorf("wrapped: %w", net.ErrClosed), failure.Disconnected},
		{&net.OpError{Op: "read", Err: errors.New("no route")}, failure.Disconnected},
		{&net.OpError{Op: "socks connect", Err: errors.New("refused")}, failure.ConnectError},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, failure.DNSError},
		{&net.OpError{Op: "write", Err: timeoutError{}}, failure.Disconnected},
		{&net.OpError{Op: "read", Err: timeoutError{}}, failure.ReadTimeout},
		{timeoutError{}, failure.ReadTimeout},
		{&bodyError{io.EOF}, failure.BodyError},
		{fmt.Errorf("http: %w", errLost), failure.Disconnected},
		{errors.New("http2: Transport: cannot retry err [stream error: stream ID 3; REFUSED_STREAM; received from peer] after Request.Body was written; define Request.GetBody to avoid this error"), failure.Unprocessed},
		{errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error"), failure.Unprocessed},
		{errors.New("http2: client connection lost"), failure.Disconnected},
		{errors.New("http: ContentLength=7 with Body length 3"), failure.BodyError},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v is a %v, want %v", c.err, got, c.want)
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }
