// Package clientotel traces the calls of a client with OpenTelemetry.
//
//	client, err := clientlib.New(ctx, "checkout", clientotel.With(otel.GetTracerProvider()))
//
// A call is one span of kind CLIENT in the stable HTTP conventions (gRPC calls
// follow those of RPCs), from before
// the circuit breaker is asked until its response body ended: by EOF, Close, or
// the limit that cut it. Its requests, retries and hops of redirects alike, are
// events named "attempt", each at the moment at which its headers came or it
// failed. The context that the propagator writes into a request is that of the
// call. Calls to hosts that no policy names are traced too.
//
// [WithAttemptSpans] makes each request a CLIENT span of its own instead, which
// ends at the headers, under an INTERNAL span for the call.
//
// Besides the conventions' attributes there are timeouts.upstream,
// timeouts.route, timeouts.outcome (as the metrics' label), timeouts.source
// (whose limit ended the call: policy, budget or caller) and
// timeouts.retry_skipped. Of an URL neither user information nor the values of
// its query are recorded.
package clientotel
