package capability

import "github.com/timeout-operator/timeout-operator/clientlib/failure"

// NetHTTP is the record of the net/http adapter (package nethttp).
func NetHTTP() Record {
	emulated := func(note string) Support { return Support{Level: Emulated, Note: note} }
	return Record{
		Adapter: "nethttp",
		Library: "net/http",
		Support: map[Name]Support{
			TimeoutTotal:           emulated("one context for attempts, backoff, redirects and body"),
			TimeoutAttempt:         emulated("its own cause on the attempt's context"),
			TimeoutConnect:         emulated("from the request for a connection until it is ready, watched by httptrace"),
			TimeoutResponseHeader:  emulated("from the written request to the first byte, watched by httptrace"),
			TimeoutBodyIdle:        emulated("restarted by each read of the body"),
			DeadlineHard:           {Level: Native, Note: "cancellation closes the HTTP/1.1 connection or resets the HTTP/2 stream"},
			DeadlineCoversBody:     emulated("the context lives until EOF, Close or the deadline"),
			RedirectsShareDeadline: emulated("hops made by http.Client inherit the call"),
			DeadlineHeader:         emulated("stamped anew on each attempt"),
			RetryOwned:             {Level: Degraded, Note: "net/http itself repeats a request once on a stale kept-alive connection that failed before a byte was read, and one that HTTP/2 refused up to seven times within the limits; such a repetition is not counted"},
			BodyReplay:             emulated("by GetBody, or a bounded copy while the first attempt reads"),
			RetryBudget:            emulated(""),
			CircuitBreaker:         emulated(""),
			PerCallOptions:         emulated(""),
			HTTP2:                  {Level: Native},
			Shadow:                 emulated(""),
		},
		Emits: failure.NewSet(
			failure.Unknown, failure.ConnectTimeout, failure.ConnectError,
			failure.DNSError, failure.TLSError, failure.PoolTimeout,
			failure.AttemptTimeout, failure.ReadTimeout, failure.TotalTimeout,
			failure.Disconnected, failure.Unprocessed, failure.ProtocolError,
			failure.BodyError, failure.Status, failure.Cancelled,
			failure.CircuitOpen,
		),
	}
}
