package capability

import "github.com/timeout-operator/timeout-operator/clientlib/failure"

// FastHTTP is the record of the fasthttp adapter (module fasthttpclient).
func FastHTTP() Record {
	emulated := func(note string) Support { return Support{Level: Emulated, Note: note} }
	return Record{
		Adapter: "fasthttp",
		Library: "github.com/valyala/fasthttp",
		Support: map[Name]Support{
			TimeoutTotal:           emulated("one scope for attempts, backoff, redirects and body"),
			TimeoutAttempt:         emulated("its end interrupts the connection"),
			TimeoutConnect:         emulated("from the request for a connection until it is ready, the wait for one of a bounded pool included"),
			TimeoutResponseHeader:  emulated("from the written request to the first byte, interim responses aside"),
			TimeoutBodyIdle:        emulated("while the connection is waited for, streamed or not"),
			DeadlineHard:           {Level: Degraded, Note: "an established connection is interrupted and closed at once; a dial that was given up goes on unseen until its own timeout, at most 50ms after the limit, after a cancellation 3s where nothing limits the dial, and for a Dial function without a timeout as long as that takes; a request body stream that blocks is waited for until its Read returns, unless it is a pipe, a file or a network connection"},
			DeadlineCoversBody:     emulated("streamed or not; a stream that nobody reads loses its connection too"),
			RedirectsShareDeadline: emulated("hops of DoRedirects are one call; those that a program follows by itself are calls of their own"),
			DeadlineHeader:         emulated("stamped anew on each attempt, on a copy of the request"),
			RetryOwned:             emulated("fasthttp's own retries are off where a policy names the host; a kept-alive connection is looked at before it is used again"),
			BodyReplay:             emulated("a body in memory as it is, a stream by a bounded copy while the first attempt reads"),
			RetryBudget:            emulated(""),
			CircuitBreaker:         emulated(""),
			PerCallOptions:         emulated("in the context that the call is made with"),
			HTTP2:                  {Note: "fasthttp speaks HTTP/1.1 only"},
			Shadow:                 emulated("fasthttp's own retries stay on"),
		},
		Emits: failure.NewSet(
			failure.Unknown, failure.ConnectTimeout, failure.ConnectError,
			failure.DNSError, failure.TLSError, failure.PoolTimeout,
			failure.AttemptTimeout, failure.ReadTimeout, failure.WriteTimeout,
			failure.TotalTimeout, failure.Disconnected, failure.ProtocolError,
			failure.BodyError, failure.Status, failure.Cancelled,
			failure.CircuitOpen,
		),
	}
}
