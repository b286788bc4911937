// Package nethttp enforces a client's policies on net/http.
//
// [NewClient] returns a real *http.Client, [NewTransport] the http.RoundTripper
// alone, for libraries that take one. Both leave redirects, cookies and the
// connection pool to net/http; hops of a redirect share one call.
//
// Errors are *[failure.Error] and, as they come out of http.Client, inside a
// *url.Error like every other error of net/http. Leave http.Client.Timeout at
// zero: the policy's total does its work, covers the body too, and knows a
// timeout of one attempt from the end of the call.
package nethttp
