package nethttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"syscall"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
)

// classifyResponse says what a response means. Statuses of 400 and above are
// failures; those of 500 and above blame the peer.
func (a *attempt) classifyResponse(resp *http.Response) engine.Outcome {
	o := engine.Outcome{OK: resp.StatusCode < 400, Status: resp.StatusCode}
	if o.OK {
		return o
	}
	o.Kind = failure.Status
	o.RetryStatus = a.Rules().RetriesStatus(resp.StatusCode)
	o.ServerFault = resp.StatusCode >= 500
	if o.RetryStatus {
		o.RetryAfter = retryafter.Parse(resp.Header.Get("Retry-After"), a.flight.Now(), longestRetryAfter)
	}
	return o
}

// longestRetryAfter is what is made of an absurd Retry-After, before the policy
// cuts it down.
const longestRetryAfter = 365 * 24 * time.Hour

// streamError has the shape of net/http's HTTP/2 stream error, which fills any
// such struct through errors.As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "HTTP/2 stream error" }

// Error codes of RFC 9113, section 7.
const (
	h2ProtocolError = 0x1
	h2RefusedStream = 0x7
)

// classify finds the kind of an error of net/http that none of our limits
// caused. Types come first; some errors of net/http have no type and are known
// by their text.
func classify(err error) failure.Kind {
	if kind, ok := classifyOwn(err); ok {
		return kind
	}
	if kind, ok := classifyDial(err); ok {
		return kind
	}
	if isTLS(err) {
		return failure.TLSError
	}
	if kind, ok := classifyTimeout(err); ok {
		return kind
	}
	if kind, ok := classifyText(err.Error()); ok {
		return kind
	}
	if isDisconnect(err) {
		return failure.Disconnected
	}
	return failure.Unknown
}

func classifyOwn(err error) (failure.Kind, bool) {
	var body *bodyError
	if errors.As(err, &body) {
		return failure.BodyError, true
	}
	if errors.Is(err, errLost) {
		return failure.Disconnected, true
	}
	var stream streamError
	if errors.As(err, &stream) {
		switch stream.Code {
		case h2RefusedStream:
			return failure.Unprocessed, true
		case h2ProtocolError:
			return failure.ProtocolError, true
		default:
			return failure.Disconnected, true
		}
	}
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) {
		return failure.ProtocolError, true
	}
	return failure.Unknown, false
}

func classifyDial(err error) (failure.Kind, bool) {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return failure.DNSError, true
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect") {
		if op.Timeout() {
			return failure.ConnectTimeout, true
		}
		return failure.ConnectError, true
	}
	// The handshake is a part of the connect phase.
	if err.Error() == "net/http: TLS handshake timeout" {
		return failure.ConnectTimeout, true
	}
	return failure.Unknown, false
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		cert      *tls.CertificateVerificationError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &record), errors.As(err, &cert), errors.As(err, &alert),
		errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.Is(err, http.ErrSchemeMismatch):
		return true
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return true
	default:
		text := err.Error()
		return strings.HasPrefix(text, "tls: ") || strings.HasPrefix(text, "remote error: tls: ")
	}
}

// classifyTimeout is for timeouts of the transport itself, or of something
// between it and us.
func classifyTimeout(err error) (failure.Kind, bool) {
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		return failure.Unknown, false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "write" {
		// Only a connection of somebody else's making has a write deadline, and
		// none survives one.
		return failure.Disconnected, true
	}
	return failure.ReadTimeout, true
}

// wrappings are what net/http puts before an error that it does not wrap.
var wrappings = []string{
	"http2: Transport: cannot retry err [",
	"net/http: HTTP/1.x transport connection broken: ",
	"net/http: Transport failed to read from server: ",
}

// texts are errors of net/http without a type or a name, by how they begin. A
// peer can put words of its own into an error (a malformed response is quoted,
// the debug data of a GOAWAY too), but not at its beginning.
var texts = []struct {
	begin string
	kind  failure.Kind
}{
	{"http2: Transport received Server's graceful shutdown GOAWAY", failure.Unprocessed},
	{"http2: Transport received GOAWAY from server", failure.Unprocessed},
	{"http2: client conn not usable", failure.Unprocessed},
	{"http2: client conn could not be established", failure.ConnectError},
	{"http2: server sent GOAWAY and closed the connection", failure.Disconnected},
	{"http2: client connection ", failure.Disconnected},
	{"http2: client conn is closed", failure.Disconnected},
	{"http: server closed idle connection", failure.Disconnected},
	{"http: idle connection timeout", failure.Disconnected},
	{"malformed ", failure.ProtocolError},
	{"invalid header", failure.ProtocolError},
	{"bad Content-Length", failure.ProtocolError},
	{"http: message cannot contain multiple Content-Length headers", failure.ProtocolError},
	{"too many transfer encodings", failure.ProtocolError},
	{"unsupported transfer encoding", failure.ProtocolError},
	{"net/http: server response headers exceeded", failure.ProtocolError},
	{"net/http: server replied with more than declared Content-Length", failure.ProtocolError},
	{"http2: response header list larger than advertised limit", failure.ProtocolError},
	{"http2: failed reading the frame payload", failure.ProtocolError},
	{"http2: unexpected ALPN protocol", failure.ProtocolError},
	{"connection error: ", failure.ProtocolError},
	{"http: suspiciously long trailer after chunked body", failure.ProtocolError},
	{"http chunk ", failure.ProtocolError},
	{"empty hex number for chunk length", failure.ProtocolError},
	{"invalid byte in chunk length", failure.ProtocolError},
	{"invalid CR in chunked line", failure.ProtocolError},
	{"chunked ", failure.ProtocolError},
	{"header line too long", failure.ProtocolError},
	{"bad trailer key", failure.ProtocolError},
	{"http: ContentLength=", failure.BodyError},
	{"http2: request body larger than specified content length", failure.BodyError},
	{"http: unexpected EOF reading trailer", failure.Disconnected},
	{"gzip: invalid", failure.BodyError},
}

func classifyText(text string) (failure.Kind, bool) {
	for _, w := range wrappings {
		text = strings.TrimPrefix(text, w)
	}
	if rest, ok := strings.CutPrefix(text, "stream error: stream ID "); ok {
		// A stream error inside of one that lost its type.
		_, code, _ := strings.Cut(rest, "; ")
		switch {
		case strings.HasPrefix(code, "REFUSED_STREAM"):
			return failure.Unprocessed, true
		case strings.HasPrefix(code, "PROTOCOL_ERROR"):
			return failure.ProtocolError, true
		default:
			return failure.Disconnected, true
		}
	}
	for _, t := range texts {
		if strings.HasPrefix(text, t.begin) {
			return t.kind, true
		}
	}
	return failure.Unknown, false
}

func isDisconnect(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) || strings.Contains(err.Error(), "transport connection broken")
}
