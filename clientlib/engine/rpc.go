package engine

import "time"

// What adapters of protocols need that carry the deadline by themselves and have
// codes of their own.

// ListsGRPC reports whether the policy itself lists a gRPC code as retryable:
// whoever wrote it down knows what answers so. The default code is nobody's word.
func (p *Policy) ListsGRPC(code int) bool { return p.listsGRPC && p.RetriesGRPC(code) }

// NoBody says that the response of the call has no body to wait for, such as that
// of a unary RPC, so that its trace ends with the call. It is called before
// Settle.
func (c *Call) NoBody() {
	if c.tracing != nil {
		c.tracing.bodyDone(BodyEvent{OK: true}, c.wall(c.decided))
	}
}

// TellsDeadline says that the protocol tells the peer what is left, whether the
// policy asks for a header or not, so that an attempt for which nothing is left
// once the reserve is kept back would come to nothing. It is called before Begin.
func (c *Call) TellsDeadline() { c.tells = true }

// Granted returns the end of the call that the peer may be told: the soonest of
// all that limits it, the caller's deadline included, less the reserve; zero for
// none.
func (c *Call) Granted() time.Time { return c.at(c.granted()) }
