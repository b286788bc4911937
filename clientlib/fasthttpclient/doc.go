// Package fasthttpclient enforces a client's policies on fasthttp.
//
// [New] returns a [Client] whose calls take a context, which fasthttp has none
// of: the caller's cancellation, deadline and ambient budget come with it. The
// *fasthttp.Client inside is there for libraries that take one
// ([Client.Fasthttp]); its calls obey the same policies.
//
// A call is made by the goroutine that asks for it, from the wait for a
// connection to the last byte of a buffered body. When it returns, for whatever
// reason, nobody uses its request or response any more, so both can be released
// at once. A limit that passes interrupts the connection, which is then closed.
// What is not interrupted is named in the capability record and in
// docs/adapters/fasthttp.md.
//
// Errors of calls under a policy are *[failure.Error], and of fasthttp's family:
// every timeout is a fasthttp.ErrTimeout by errors.Is. Calls to hosts that no
// policy names return fasthttp's own errors.
//
// [failure.Error]: https://pkg.go.dev/github.com/timeout-operator/timeout-operator/clientlib/failure#Error
package fasthttpclient
