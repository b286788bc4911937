package capability

import "github.com/timeout-operator/timeout-operator/clientlib/failure"

// GRPC is the record of the gRPC adapter (package grpcclient).
func GRPC() Record {
	emulated := func(note string) Support { return Support{Level: Emulated, Note: note} }
	return Record{
		Adapter: "grpc",
		Library: "google.golang.org/grpc",
		Support: map[Name]Support{
			TimeoutTotal:           emulated("one deadline for attempts and backoff; on a server stream until its headers, or to its end with scope Body"),
			TimeoutAttempt:         emulated("its own cause on the attempt's context; on a server stream until its headers"),
			TimeoutConnect:         {Level: Absent, Note: "connections are shared and made beside the calls; a call that waits for one is ended by timeouts.attempt"},
			TimeoutResponseHeader:  {Level: Absent, Note: "grpc-go does not say when a request was written; timeouts.attempt covers the wait"},
			TimeoutBodyIdle:        emulated("the gap between two messages of a server stream, while RecvMsg waits; a unary reply has no gaps"),
			DeadlineHard:           {Level: Native, Note: "cancellation resets the stream"},
			DeadlineCoversBody:     emulated("a unary reply is in one piece; a server stream is covered where its route says scope Body"),
			RedirectsShareDeadline: {Level: Absent, Note: "gRPC has no redirects"},
			DeadlineHeader:         {Level: Native, Note: "grpc-timeout on each attempt, less the reserve; the policy's header as metadata besides; a server stream is told only what ends it: the caller's deadline, and with scope Body the call's"},
			RetryOwned:             {Level: Degraded, Note: "where the policy does not repeat what is Unprocessed, and on streams, grpc-go itself repeats once what a server did not process; that is not counted. A stream is repeated only until it has a connection. Retries of a service config are switched off"},
			BodyReplay:             emulated("the message of a unary call is at hand, whatever its size; those of a stream are not kept"),
			RetryBudget:            emulated(""),
			CircuitBreaker:         emulated("a server stream counts by its headers"),
			PerCallOptions:         emulated("an RPC is a POST: it is repeated where nothing of it was sent or processed, or where retryableGRPCCodes lists its code, an idempotency header is in its metadata, methods has POST, or the call site vouches"),
			HTTP2:                  {Level: Native},
			Shadow:                 emulated(""),
		},
		Emits: failure.NewSet(
			failure.Unknown, failure.ConnectTimeout, failure.ConnectError,
			failure.DNSError, failure.TLSError, failure.AttemptTimeout,
			failure.ReadTimeout, failure.TotalTimeout, failure.Disconnected,
			failure.Unprocessed, failure.ProtocolError, failure.BodyError,
			failure.Status, failure.Cancelled, failure.CircuitOpen,
		),
	}
}
