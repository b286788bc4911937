package fasthttpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
	"github.com/valyala/fasthttp"
)

// stage is how far an exchange came.
type stage uint8

const (
	atConnect stage = iota
	atWrite
	atHead
	atBody
)

// longestWait is what a peer's wish is cut down to before the policy is asked.
const longestWait = 365 * 24 * time.Hour

// classifyStatus says what a response means. Statuses of 400 and above are
// failures; those of 500 and above blame the peer.
func (a *attempt) classifyStatus(resp *fasthttp.Response) engine.Outcome {
	status := resp.StatusCode()
	o := engine.Outcome{OK: status < 400, Status: status}
	if o.OK {
		return o
	}
	o.Kind = failure.Status
	o.RetryStatus = a.Rules().RetriesStatus(status)
	o.ServerFault = status >= 500
	if o.RetryStatus {
		o.RetryAfter = retryafter.Parse(string(resp.Header.Peek(fasthttp.HeaderRetryAfter)), a.flight.Now(), longestWait)
	}
	return o
}

// isEvents reports whether a response is a stream of server-sent events.
func isEvents(resp *fasthttp.Response) bool {
	mediaType, _, _ := bytes.Cut(resp.Header.ContentType(), []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(mediaType), []byte("text/event-stream"))
}

// classify finds the kind of a failure that none of our limits caused, from the
// stage it came at and from what the connection itself had to say, nil for
// nothing: no text that a peer could have a hand in is looked at.
func classify(at stage, err, broken error) failure.Kind {
	switch {
	case at == atConnect:
		return classifyConnect(err)
	case broken != nil && isTimeout(broken) && at == atWrite:
		return failure.WriteTimeout // Client.WriteTimeout
	case broken != nil && isTimeout(broken):
		return failure.ReadTimeout // Client.ReadTimeout
	case broken != nil:
		return failure.Disconnected
	case at == atWrite:
		return failure.BodyError // the connection is whole, so it was the body
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return failure.BodyError
	default:
		return failure.ProtocolError
	}
}

func classifyConnect(err error) failure.Kind {
	var (
		dns       *net.DNSError
		op        *net.OpError
		handshake *handshakeError
	)
	switch {
	case errors.Is(err, fasthttp.ErrNoFreeConns):
		return failure.PoolTimeout
	case errors.Is(err, fasthttp.ErrDialTimeout), errors.Is(err, fasthttp.ErrTLSHandshakeTimeout):
		return failure.ConnectTimeout
	case errors.As(err, &handshake):
		return classifyHandshake(handshake.err)
	case errors.As(err, &dns):
		return failure.DNSError
	case strings.HasPrefix(err.Error(), "couldn't find dns entries"):
		return failure.DNSError // of fasthttp, for a name without an IPv4 address
	case isTimeout(err):
		return failure.ConnectTimeout
	case errors.As(err, &op):
		return failure.ConnectError
	default:
		return failure.Unknown
	}
}

// classifyHandshake tells a connection that broke from one whose peer or whose
// certificate is not as it should be.
func classifyHandshake(err error) failure.Kind {
	var op *net.OpError
	switch {
	case isTLS(err):
		return failure.TLSError
	case isTimeout(err):
		return failure.ConnectTimeout
	case errors.As(err, &op) && op.Op != "remote error" && op.Op != "local error", isEOF(err):
		return failure.ConnectError
	default:
		return failure.TLSError
	}
}

func isTLS(err error) bool {
	var (
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
		alert  tls.AlertError
		host   x509.HostnameError
	)
	return errors.As(err, &record) || errors.As(err, &cert) || errors.As(err, &alert) || errors.As(err, &host)
}

// isTimeout asks the error, not its text.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
