package deadline

import (
	"net/netip"
	"time"
)

// DefaultMaximum bounds an incoming deadline unless [Maximum] says otherwise.
const DefaultMaximum = time.Hour

// Option changes what is made of the deadlines that requests bring, see
// [Middleware] and [NewReader].
type Option func(*Reader)

// TrustPrefixes lets requests from these networks set a budget, by the address
// of the peer that holds the connection; X-Forwarded-For and its like are never
// looked at, since anybody can write them. Where a proxy stands in between, its
// address is what counts: it has to drop the header of those that it does not
// trust. A middleware that sets RemoteAddr by such a header has to stand inside
// of this one. Several calls add up; one without a prefix trusts nobody.
//
// Without this option, [TrustFunc] and [TrustEveryone], the networks are those
// that the internet does not route: loopback, private (RFC 1918, RFC 4193),
// link-local and shared addresses (RFC 6598).
func TrustPrefixes(prefixes ...netip.Prefix) Option {
	return func(r *Reader) {
		r.chosen = true
		for _, p := range prefixes {
			r.trusted = append(r.trusted, unmapPrefix(p))
		}
	}
}

// TrustFunc lets requests set a budget that a function of yours accepts, such as
// those with a client certificate, beside those of [TrustPrefixes] and of other
// functions. It is called from many goroutines, for requests that bring a
// deadline only.
func TrustFunc(trust func(*Incoming) bool) Option {
	return func(r *Reader) {
		r.chosen = true
		if trust != nil {
			r.trust = append(r.trust, trust)
		}
	}
}

// TrustEveryone lets every request set a budget, for servers that only trusted
// peers can reach.
func TrustEveryone() Option {
	return TrustFunc(func(*Incoming) bool { return true })
}

// Headers says which headers are read; of several that a request has, the
// tightest counts. The default is X-Deadline-Ms, grpc-timeout and
// x-envoy-expected-rq-timeout-ms.
func Headers(headers ...Header) Option {
	return func(r *Reader) { r.headers = headers }
}

// Maximum bounds the budget that a request can set: one that asks for more gets
// this much. Zero or less is no bound. The default is [DefaultMaximum].
func Maximum(d time.Duration) Option {
	return func(r *Reader) { r.maximum = d }
}

// RefuseSpent answers at once when a trusted request has nothing left: 504 in
// HTTP, DEADLINE_EXCEEDED in gRPC. Without it the handler runs, inside a budget
// that is spent, and each call that it makes is refused.
func RefuseSpent() Option {
	return func(r *Reader) { r.refuse = true }
}

// EndContext lets the context of a handler end with its budget, for handlers
// that do more than make calls. It costs a timer a request.
func EndContext() Option {
	return func(r *Reader) { r.endContext = true }
}

// WithObserver adds someone who is told what became of each incoming deadline.
func WithObserver(o Observer) Option {
	return func(r *Reader) {
		if o != nil {
			r.observers = append(r.observers, o)
		}
	}
}
