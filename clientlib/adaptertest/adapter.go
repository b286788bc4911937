package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
)

// Adapter is an adapter under test.
type Adapter struct {
	// Record is what the adapter declares, and what the battery holds it to.
	Record capability.Record

	// Open starts a server, and a client of it whose calls go through the
	// adapter on top of c. Everything it starts ends with t. The policy of c is
	// for the upstream [Upstream] and covers [Hosts], on every port. It is called
	// once or more for each check, also from several tests at a time.
	Open func(t testing.TB, c *clientlib.Client, s Setup) Peer

	// Lacks says, for each feature that the protocol, the library or its test
	// does not have, why not. A capability whose proof takes one of them has to
	// be declared Absent, and a kind must not be declared as emitted unless
	// another feature provokes it.
	Lacks map[Feature]string

	// Family returns nil for an error that belongs to the family of the library's
	// own errors, as a caller of that library would ask, and else what is wrong.
	// It is asked about every error that a call returns. nil asks nothing.
	Family func(err error) error

	// Shortfalls prove the note of a capability that is declared Degraded: each
	// shows that it falls short in the way that the note says, and fails the test
	// when it does not. One is needed where the battery itself sees no
	// difference from the full capability.
	Shortfalls map[capability.Name]func(t testing.TB)

	// Match is the match of a route, as JSON, that covers every call of the peers;
	// empty means every path, as HTTP has them.
	Match string

	// hold is how long a call lasts that nothing cuts; 0 for the usual.
	hold time.Duration
}

// Setup asks for a special peer.
type Setup struct {
	// HTTP2 asks for calls that share one HTTP/2 connection; see [OverHTTP2].
	HTTP2 bool
	// Connections bounds the library's pool, 0 for not; see [BoundedPool].
	Connections int
}

// Peer is a server that misbehaves as each call asks, and a client of it. Its
// methods are called from several goroutines at a time.
type Peer interface {
	// Do makes one logical call through the adapter, reads its response to the
	// end and closes it. ctx is the caller's context; an adapter of a library
	// without contexts takes from it what its calls can have (see
	// [CallerContext]).
	Do(ctx context.Context, call Call) Result

	// Seen returns the requests that reached the server, in the order of arrival.
	// A request counts once its headers are there.
	Seen() []Seen

	// Left returns how many of the requests lost their client before they were
	// answered to the end.
	Left() int
}

// Call is what the battery asks of a peer: what the server is to do, and what
// kind of call it is.
type Call struct {
	// Behaviour of the server.
	Behaviour

	// Body of the request; empty for none.
	Body string
	// Opaque says that the library cannot have the body a second time by itself.
	Opaque bool
	// Once asks for a call that the default policy does not repeat, such as a
	// POST; see [CallsOnce]. The default is one that it repeats, such as a GET or
	// a PUT.
	Once bool
	// Key asks for the header (on gRPC metadata) Idempotency-Key, by which a server
	// knows a repetition; see [IdempotencyKeys].
	Key bool
	// PassedOn is what the caller's own request has in [DeadlineHeader] (on gRPC its
	// metadata), as a proxy passes on what it was told; empty for no such header. See
	// [PassedOn].
	PassedOn string
	// Options of the call site, given in the adapter's own way, such as in the
	// context by clientlib.WithCall.
	Options []clientlib.CallOption
}

// Context returns the context of a call with the options of its call site.
func (call *Call) Context(ctx context.Context) context.Context {
	if len(call.Options) == 0 {
		return ctx
	}
	return clientlib.WithCall(ctx, call.Options...)
}

// Result is what a caller got.
type Result struct {
	// Err is the error of the call or of reading its response, as the library's
	// users get it.
	Err error
	// Status is the HTTP status or gRPC code, -1 for none.
	Status int
	// Body of the response as far as it came; the texts of all messages, one
	// after the other, where it has several.
	Body string
}

// Seen is a request as the server saw it.
type Seen struct {
	// Deadline is the time that the request says is left, negative when it says
	// nothing. Where the protocol has a deadline of its own (grpc-timeout) it is
	// that one.
	Deadline time.Duration
	// Header is what [DeadlineHeader] says, as it came: several values with ", "
	// between them, empty where the request has none.
	Header string
	// Body of the request as far as it was read.
	Body string
	// Connection is a number that requests of one connection have in common.
	Connection int
}

const (
	// Upstream is the name of the peer in the policies of the battery.
	Upstream = policytest.Upstream
	// DeadlineHeader is the header that they ask for. gRPC has one of its own.
	DeadlineHeader = "X-Deadline-Ms"
	// UnknownHost is a host that does not resolve, which they cover too.
	UnknownHost = "nowhere.invalid"
)

// Hosts are the hosts that the policies of the battery cover, on every port.
func Hosts() []string { return []string{"127.0.0.1", "localhost", UnknownHost} }
