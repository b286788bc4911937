// Package deadline carries the time that is left for the request being served
// to the calls that serving it makes, and between services.
//
// A budget is ambient: it travels in a context.Context and shortens every call
// that is made with it. It does not cancel the context itself; the engine of a
// client enforces it call by call and says in its error that the limit was the
// budget's. It costs neither a timer nor a goroutine. Nested budgets can only
// shorten: the tightest holds, and what was outside is there again outside.
// Everything that shares the context shares the budget, in parallel too.
//
// [Middleware] makes the deadline that a request brought the budget of its
// handler, for gRPC the module grpcserver does. The engine tells the next
// service what is left where the policy names a header for it; [Stamp] does so
// for requests that are made without an adapter.
package deadline
