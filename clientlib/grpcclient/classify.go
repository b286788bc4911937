package grpcclient

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// result is what an attempt brought.
type result struct {
	err         error // nil for success
	outcome     engine.Outcome
	attribution engine.Attribution
	// unsent says that nothing of the RPC has left this process.
	unsent bool
	// refused says that the server asks not to try again.
	refused bool
}

// classify says what an attempt that ended with err came to. Whose limit it was
// is asked of the scope, the caller's context and the clock before the error is
// looked at.
func (a *attempt) classify(err error) result {
	if err == nil {
		return result{outcome: engine.Outcome{OK: true}}
	}
	if res, ok := a.limited(err); ok {
		return res
	}
	none := engine.Outcome{Status: engine.NoStatus}
	unsent := a.trailer == nil && neverSent(err)
	kind, known := a.localKind(err)
	if !known || kind == failure.Status {
		return a.answered(err)
	}
	none.Kind = kind
	res := result{err: err, outcome: none, unsent: unsent}
	if kind == failure.Unknown {
		res.err = notCancelled(err)
	}
	if kind == failure.Cancelled {
		res.attribution.Source = failure.SourceCaller
	}
	return res
}

var errForeignCancel = errors.New("an interceptor cancelled the attempt")

// notCancelled returns the error of an attempt that neither a limit nor its caller
// ended: to nobody is that a context.Canceled.
func notCancelled(err error) error {
	if err == context.Canceled {
		return errForeignCancel
	}
	return engine.CauseOf(err)
}

// limited is the result of an attempt that a limit, or its caller, ended; false
// for another.
func (a *attempt) limited(err error) (result, bool) {
	none := engine.Outcome{Status: engine.NoStatus}
	unsent := err != nil && a.trailer == nil && neverSent(err)
	if limit := a.Fired(); limit != engine.LimitNone {
		none.Kind = limit.Kind()
		return result{err: said(err), outcome: none, attribution: a.Attribution(limit), unsent: unsent}, true
	}
	if a.parent.Err() != nil {
		out, attribution := engine.CallerEnded(a.parent)
		return result{err: context.Cause(a.parent), outcome: out, attribution: attribution}, true
	}
	now := a.flight.Now()
	if attribution, over := a.Over(now); over {
		// The peer gave up at the instant at which our timer was about to.
		none.Kind = failure.TotalTimeout
		return result{err: said(err), outcome: none, attribution: attribution}, true
	}
	// The same for the end that the server was told of. What it says at that moment
	// is its own affair: a handler that sees its context end may well return nothing,
	// or say that all is well.
	if (a.toldAttempt || err == nil || status.Code(err) == codes.DeadlineExceeded) && !a.told.IsZero() && !now.Before(a.told) {
		return a.toldSo(err, unsent), true
	}
	return result{}, false
}

// ended is the result of a server stream that came to a regular end. One that ends
// with its limit, or when its server was told to, does not: a server may then stop
// in good order, with messages missing.
func (a *attempt) ended() result {
	if a.Fired() != engine.LimitNone || a.parent.Err() == nil {
		if res, ok := a.limited(nil); ok {
			return res
		}
	}
	return result{outcome: engine.Outcome{OK: true}}
}

// toldSo is for a server that kept the deadline that it was told, before the
// limit itself passed.
func (a *attempt) toldSo(err error, unsent bool) result {
	res := result{err: said(err), outcome: engine.Outcome{Status: engine.NoStatus}, unsent: unsent}
	if a.toldAttempt {
		res.outcome.Kind = failure.AttemptTimeout
		res.attribution = a.Attribution(engine.LimitAttempt)
		return res
	}
	res.outcome.Kind = failure.TotalTimeout
	res.attribution, _ = a.flight.Expired(a.flight.End())
	if reserve := a.Rules().DeadlineReserve; reserve > 0 && res.attribution.Source == failure.SourcePolicy {
		res.attribution.Field, res.attribution.Limit = "deadline.reserve", reserve
	}
	return res
}

// answered is the result of an RPC that a server, or something in its place,
// answered with an error.
func (a *attempt) answered(err error) result {
	code := int(status.Code(err))
	p := a.Rules()
	res := result{err: err, outcome: engine.Outcome{
		Kind:        failure.Status,
		Status:      code,
		RetryStatus: p.RetriesGRPC(code),
		ServerFault: blamesServer(codes.Code(code)),
	}}
	if p.RetryAfterMax >= 0 {
		res.outcome.RetryAfter, res.refused = pushback(a.trailer[pushbackKey])
	}
	if res.refused {
		res.outcome.RetryStatus = false
	}
	return res
}

// blamesServer tells the codes that google.rpc.Code maps to HTTP 500 and above. A
// code that is none is UNKNOWN, as other implementations read it.
func blamesServer(c codes.Code) bool {
	switch c {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	default:
		return c > codes.Unauthenticated
	}
}

// localKind tells a failure that grpc-go found by itself, and gave a status of its
// own making, from a status of the server's. known is false where nothing says
// so: then it is an answer.
//
// A server's status can carry any text, such as that of a failure of its own
// calls. That nothing was sent or processed is believed only of an RPC for which
// nothing came back: a server that answers sends a content type, in the headers
// or, without headers, in the trailers.
func (a *attempt) localKind(err error) (kind failure.Kind, known bool) {
	s, ok := status.FromError(err)
	switch {
	case !ok && errors.Is(err, context.DeadlineExceeded):
		return failure.ReadTimeout, true // a limit of an interceptor's
	case !ok:
		return failure.Unknown, true
	case err == grpc.ErrClientConnClosing: // by its name: the code is CANCELED
		return failure.Cancelled, true
	case len(a.trailer["content-type"]) > 0, answersOnly(s.Code()):
		return failure.Status, true
	}
	text := s.Message()
	if begins(text, bodyTexts) {
		return failure.BodyError, true
	}
	if len(a.trailer) > 0 {
		return failure.Status, true
	}
	if a.trailer == nil {
		if kind, ok := unsentKind(text); ok {
			return kind, true
		}
	}
	return a.brokenKind(s, text)
}

// brokenKind is for an RPC that was on its way, and for which no status came.
func (a *attempt) brokenKind(s *status.Status, text string) (failure.Kind, bool) {
	// All that grpc-go says of a connection that broke has this code.
	broke := s.Code() == codes.Unavailable
	silent := a.header == nil && broke
	if broke && begins(text, closedTexts) {
		return failure.Cancelled, true
	}
	if code, ok := strings.CutPrefix(text, "stream terminated by RST_STREAM with error code: "); ok {
		switch {
		case s.Code() == codes.DeadlineExceeded:
			// grpc-go's own code for a reset after the deadline that it knows of, which
			// is none of ours: see below.
			return failure.ReadTimeout, true
		case code == "REFUSED_STREAM" && silent:
			return failure.Unprocessed, true
		case code == "PROTOCOL_ERROR":
			return failure.ProtocolError, true
		default:
			return failure.Disconnected, true
		}
	}
	switch {
	case silent && begins(text, unprocessedTexts):
		return failure.Unprocessed, true
	case broke && begins(text, unprocessedTexts):
		return failure.Disconnected, true // the server had begun to answer
	case broke && begins(inner(text), brokenTexts):
		return failure.Disconnected, true
	case begins(text, protocolTexts):
		return failure.ProtocolError, true
	case strings.HasPrefix(text, httpStatusText):
		// Something in the server's place, such as a proxy, speaks HTTP only; what
		// grpc-go has a code for counts as an answer.
		if s.Code() == codes.Unknown || s.Code() == codes.Internal {
			return failure.ProtocolError, true
		}
		return failure.Status, true
	case s.Code() == codes.DeadlineExceeded && (a.trailer == nil || strings.Contains(text, context.DeadlineExceeded.Error())):
		// A limit of the library's own, such as a service config's, or of an
		// interceptor's. In other words it is the server's, of its own work.
		return failure.ReadTimeout, true
	case s.Code() == codes.Canceled && a.trailer == nil:
		return failure.Unknown, true // by an interceptor, before anything was sent
	default:
		return failure.Unknown, false
	}
}

// answersOnly tells the codes that the library never gives a failure of its own
// (gRFC A54), and those that are none.
func answersOnly(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	default:
		return c > codes.Unauthenticated
	}
}

const httpStatusText = "unexpected HTTP status code received from server: "

// Texts of grpc-go by how they begin.
var (
	bodyTexts = []string{
		"grpc: error while marshaling", "grpc: failed to unmarshal", "grpc: received message",
		"trying to send message larger than max", "grpc: failed to decompress", "grpc: error while compressing",
		"grpc: Decompressor is not installed", "grpc: Compressor is not installed",
		"grpc: message after decompression larger than max", "grpc: message too large",
		"grpc: failed to read decompressed data", "grpc: no decompressor available", "grpc: peer compressed the response",
	}
	unprocessedTexts = []string{
		"the stream is rejected because server is draining the connection", "the connection is draining",
	}
	// The program closed the connection; with headers there, grpc-go may say so in
	// the words of its transport.
	closedTexts = []string{
		grpc.ErrClientConnClosing.Error(), "closing transport due to: " + grpc.ErrClientConnClosing.Error(),
	}
	brokenTexts = []string{
		"error reading from server: ", "keepalive ping failed", "transport is closing", "closing transport due to: ",
		"closing connection since the server is not reading", "received goaway", "no active streams left to process",
	}
	protocolTexts = []string{
		"malformed header: ", "transport: malformed ", "server closed the stream without sending trailers",
		"a HEADERS frame cannot appear", "peer header list size exceeded limit", "protocol error: ",
		"cardinality violation: ", "received compressed flag", "grpc: compressed flag set", "grpc: received unexpected payload format",
		"unexpected EOF",
	}
)

func begins(text string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(text, w) {
			return true
		}
	}
	return false
}

// pickTexts are what balancers put before the reason for having no connection.
var pickTexts = []string{
	"latest balancer error: ", "last connection error: ", "all SubConns are in TransientFailure, ",
}

// neverSent reports whether an RPC ended before anything of it was sent, such as
// while it waited for a connection.
func neverSent(err error) bool {
	text := status.Convert(err).Message()
	if strings.HasSuffix(text, " while waiting for connections to become ready") {
		return true
	}
	_, ok := unsentKind(text)
	return ok
}

// unmadeTexts are those of RPCs that grpc-go does not make, whatever the server is
// like: for their metadata, their credentials, or what is set up for them.
var unmadeTexts = []string{
	"header key ", "there is an empty key in the header", "header list size to send violates ",
	"transport: per-RPC creds failed ", "transport: received per-RPC creds error ", "transport: cannot send secure credentials ",
	"failed to validate authority ", "credentials type ", "no codec registered for content-subtype ",
	"config selector returned illegal status: ", "invalid client interceptor type ",
}

// unsentKind says why there is no connection for an RPC, or why it was not made;
// false where the text says something else.
func unsentKind(text string) (failure.Kind, bool) {
	if begins(text, unmadeTexts) {
		return failure.Unknown, true
	}
	for range pickTexts {
		for _, p := range pickTexts {
			text = strings.TrimPrefix(text, p)
		}
	}
	if strings.HasPrefix(text, "name resolver error: ") {
		return failure.DNSError, true
	}
	text = inner(text)
	for _, p := range []string{"transport: Error while dialing: ", "transport: error while dialing: "} {
		if reason, ok := strings.CutPrefix(text, p); ok {
			return dialKind(reason), true
		}
	}
	if reason, ok := strings.CutPrefix(text, "transport: authentication handshake failed: "); ok {
		return handshakeKind(reason), true
	}
	switch {
	case strings.HasPrefix(text, "error reading server preface: http2: "),
		strings.HasPrefix(text, "initial http2 frame from server is not a settings frame"):
		return failure.ProtocolError, true
	case strings.HasPrefix(text, "error reading server preface: "),
		strings.HasPrefix(text, "transport: failed to write "):
		if timedOut(text) {
			return failure.ConnectTimeout, true
		}
		return failure.ConnectError, true
	default:
		return failure.Unknown, false
	}
}

// inner takes a connection error out of the quotes in which grpc-go puts it.
func inner(text string) string {
	rest, ok := strings.CutPrefix(text, "connection error: desc = ")
	if !ok {
		return text
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return text
	}
	if reason, err := strconv.Unquote(quoted); err == nil {
		return reason
	}
	return text
}

// dialKind reads the text of package net.
func dialKind(reason string) failure.Kind {
	switch {
	case strings.HasPrefix(reason, "dial ") && strings.Contains(reason, ": lookup "):
		return failure.DNSError
	case timedOut(reason):
		return failure.ConnectTimeout
	default:
		return failure.ConnectError
	}
}

func handshakeKind(reason string) failure.Kind {
	switch {
	case timedOut(reason):
		return failure.ConnectTimeout
	case strings.HasPrefix(reason, "tls: "), strings.HasPrefix(reason, "remote error: tls: "),
		strings.HasPrefix(reason, "x509: "), strings.HasPrefix(reason, "credentials: "):
		return failure.TLSError
	default:
		return failure.ConnectError
	}
}

func timedOut(text string) bool {
	return strings.HasSuffix(text, "i/o timeout") || strings.HasSuffix(text, "context deadline exceeded")
}
