package adaptertest

import "time"

// Feature is something that a peer can do. What it cannot do is listed in
// Adapter.Lacks.
type Feature string

// What a server does with a request. Where nothing else is said, the request is
// counted, its body is read, and an answer is a success whose body is that of the
// request, or "ok" when that was empty. Times are counted over all requests to the
// peer that ask for the same feature.
const (
	// Answers at once. The zero value means this too.
	Answers Feature = "Answers"
	// Waits for Delay, then answers; less when its client leaves.
	Waits Feature = "Waits"
	// Fails with the retryable status that says "unavailable" (HTTP 503, gRPC
	// UNAVAILABLE), Times times, then answers; always when Times is 0. RetryAfter
	// is how long it asks to wait, by Retry-After or pushback.
	Fails Feature = "Fails"
	// Refuses with a status that blames the caller (HTTP 400, gRPC
	// INVALID_ARGUMENT).
	Refuses Feature = "Refuses"
	// Breaks with a status that blames the server and that no default repeats
	// (HTTP 500, gRPC INTERNAL).
	Breaks Feature = "Breaks"
	// Drips: headers at once, then Pieces pieces "x" of a body that is no stream
	// of events, one each Every. On gRPC a server stream, for want of anything
	// nearer.
	Drips Feature = "Drips"
	// Streams is Drips of what the protocol takes for a stream (text/event-stream,
	// gRPC server stream), each piece being "x" once its envelope is taken off.
	Streams Feature = "Streams"
	// Stops: headers and Pieces pieces "x" at once, of a body like that of Drips, then
	// nothing for Delay, then the end of the body.
	Stops Feature = "Stops"
	// Resets closes the connection in place of an answer.
	Resets Feature = "Resets"
	// Cuts the connection within the body of an answer, of which the caller has a
	// part by then. On gRPC it is a server stream, after its first message.
	Cuts Feature = "Cuts"
	// Garbles: answers with something that is not the protocol.
	Garbles Feature = "Garbles"
	// Declines says that it did not act on the request (HTTP/2 REFUSED_STREAM),
	// Times times, then answers; always when Times is 0. It is asked for over
	// HTTP/2 only.
	Declines Feature = "Declines"
	// Redirects Times times to itself, each after Delay, then answers.
	Redirects Feature = "Redirects"
	// Forgets answers, and closes a connection that is kept alive when the next
	// request arrives on it, that request unanswered.
	Forgets Feature = "Forgets"
	// Unread: never reads a body that is larger than every buffer in between. The
	// peer makes that body, and sets the library's own write limit to less than
	// 100ms where there is one. After Delay the server answers all the same.
	Unread Feature = "Unread"
)

// What goes wrong before a server has the request. The peer's client does it with
// the library's own means; nothing is counted by the server.
const (
	// Unreachable: nobody listens.
	Unreachable Feature = "Unreachable"
	// Stalls: a connection is accepted and never gets ready. After Delay it is
	// closed.
	Stalls Feature = "Stalls"
	// Unnamed: the host is [UnknownHost].
	Unnamed Feature = "Unnamed"
	// Untrusted: the server has a certificate of nobody whom the client knows.
	Untrusted Feature = "Untrusted"
	// BadBody: the request's body cannot be read to its end.
	BadBody Feature = "BadBody"
	// Panics: something of the program's that the library calls, such as a dialler, an
	// interceptor or a transport underneath, panics, and Do with it.
	Panics Feature = "Panics"
	// Odd: the library fails with an error of no kind that is known, such as one
	// that a dialler of the test's own makes up.
	Odd Feature = "Odd"
)

// Ways of calling.
const (
	// OverHTTP2: Setup.HTTP2.
	OverHTTP2 Feature = "OverHTTP2"
	// BoundedPool: Setup.Connections.
	BoundedPool Feature = "BoundedPool"
	// CallsOnce: Call.Once.
	CallsOnce Feature = "CallsOnce"
	// IdempotencyKeys: Call.Key.
	IdempotencyKeys Feature = "IdempotencyKeys"
	// PassedOn: Call.PassedOn.
	PassedOn Feature = "PassedOn"
	// OpaqueBodies: Call.Opaque.
	OpaqueBodies Feature = "OpaqueBodies"
	// CallerContext: the caller's context can end a call.
	CallerContext Feature = "CallerContext"
	// AmbientBudget: the budget of package deadline in the caller's context
	// reaches the call.
	AmbientBudget Feature = "AmbientBudget"
)

// Behaviour is what a server does with a request; fields that its feature does
// not name mean nothing.
type Behaviour struct {
	Does       Feature
	Delay      time.Duration
	Times      int
	Pieces     int
	Every      time.Duration
	RetryAfter time.Duration
}
