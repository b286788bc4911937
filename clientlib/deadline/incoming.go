package deadline

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// Incoming is a request that is about to be served.
type Incoming struct {
	// Context of the request; never nil.
	Context context.Context
	// Addr is the address of the peer that holds the connection, with neither
	// zone nor IPv6 mapping; not valid where it has none, as on a Unix socket.
	Addr netip.Addr
	// Request is nil in servers that are not of net/http.
	Request *http.Request
	// Protocol is "http", "grpc" or "fasthttp", for metrics.
	Protocol string
	// Values returns all values of a header field by its canonical name; never
	// nil.
	Values func(name string) []string
	// Deadline that the protocol itself has set to Context, as gRPC does with
	// grpc-timeout; zero for none. It takes part like a header.
	Deadline time.Time
}

// Result says what became of the deadline that a request brought.
type Result uint8

// The results. A request without a deadline has none and is not told of.
const (
	// Accepted: it is the budget of the request now.
	Accepted Result = iota
	// Bounded: it was more than the maximum, which is the budget now.
	Bounded
	// Spent: nothing was left.
	Spent
	// Untrusted: the peer may not set one.
	Untrusted
	// Malformed: it is not in the notation of its header, or larger than that
	// allows, or repeated. Another header of the request may still count.
	Malformed

	resultCount
)

// Results is the number of results.
const Results = int(resultCount)

var resultNames = [resultCount]string{"accepted", "bounded", "spent", "untrusted", "malformed"}

// String returns the metric spelling, such as "untrusted".
func (r Result) String() string {
	if r >= resultCount {
		return ""
	}
	return resultNames[r]
}

// Observer is told what became of incoming deadlines, for metrics. It is called
// from many goroutines at once and must not block.
type Observer interface {
	// IncomingDeadline is called for each request that brought a deadline; once
	// more for each header of a trusted one that was malformed.
	IncomingDeadline(protocol string, r Result)
}

// Reader turns the deadline that a request brings into the ambient budget of
// those who serve it. It is immutable and safe for concurrent use. [Middleware]
// and the module grpcserver are made of it; it is for servers of other kinds.
type Reader struct {
	headers    []Header
	maximum    time.Duration
	chosen     bool // an option says whom to trust
	trusted    []netip.Prefix
	trust      []func(*Incoming) bool
	refuse     bool
	endContext bool
	observers  []Observer
}

// NewReader returns a Reader. Without an option that says whom it trusts, it
// trusts peers of addresses that are not routed in the internet, see
// [TrustPrefixes].
func NewReader(opts ...Option) *Reader {
	r := &Reader{
		headers: []Header{Milliseconds(""), GRPCTimeout(), EnvoyExpected()},
		maximum: DefaultMaximum,
	}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

// Begin returns the context to serve a request with, and what to call when it
// is served. refused says that it must not be served, since nothing is left and
// [RefuseSpent] was given. A deadline can only shorten what the context has:
// where it says nothing that counts, the context is the request's own.
func (r *Reader) Begin(in *Incoming) (ctx context.Context, done func(), refused bool) {
	ctx, done, refused, _ = r.begin(in)
	return ctx, done, refused
}

// begin is Begin, and says whether the context is another one: those of programs need
// not be comparable.
func (r *Reader) begin(in *Incoming) (ctx context.Context, done func(), refused, changed bool) {
	now := time.Now() //nolint:forbidigo // where what a peer has left becomes a point in time
	end, ok := r.read(in, now)
	if !ok {
		return in.Context, nothing, false, false
	}
	if r.refuse && !now.Before(end) {
		return in.Context, nothing, true, false
	}
	ctx = Until(in.Context, end)
	if !r.endContext {
		return ctx, nothing, false, true
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	return ctx, cancel, false, true
}

func nothing() {}

// read returns when the budget ends that a request sets.
func (r *Reader) read(in *Incoming, now time.Time) (end time.Time, ok bool) {
	if !r.brings(in) {
		return time.Time{}, false
	}
	if !r.trusts(in) {
		r.tell(in, Untrusted)
		return time.Time{}, false
	}
	left := r.tightest(in, now)
	switch {
	case left == Unlimited:
		return time.Time{}, false
	case left <= 0:
		r.tell(in, Spent)
		return now, true
	case r.maximum > 0 && left > r.maximum:
		r.tell(in, Bounded)
		return now.Add(r.maximum), true
	default:
		r.tell(in, Accepted)
		return now.Add(left), true
	}
}

// brings reports whether a request has a deadline at all, good or bad.
func (r *Reader) brings(in *Incoming) bool {
	if !in.Deadline.IsZero() {
		return true
	}
	for _, h := range r.headers {
		if h.name != "" && len(in.Values(h.name)) > 0 {
			return true
		}
	}
	return false
}

// tightest returns the least that a request says is left, Unlimited for nothing
// that counts. A header that is repeated says nothing: whom to believe is not
// ours to guess.
func (r *Reader) tightest(in *Incoming, now time.Time) time.Duration {
	left := Unlimited
	if !in.Deadline.IsZero() {
		left = in.Deadline.Sub(now)
	}
	for _, h := range r.headers {
		if h.name == "" {
			continue
		}
		values := in.Values(h.name)
		if len(values) == 0 {
			continue
		}
		said, err := time.Duration(0), errMalformed
		if len(values) == 1 {
			said, err = h.parse(values[0])
		}
		switch err {
		case nil:
			left = min(left, said)
		case errMalformed:
			r.tell(in, Malformed)
		}
	}
	return left
}

func (r *Reader) trusts(in *Incoming) bool {
	if !r.chosen {
		return inside(in.Addr)
	}
	for _, p := range r.trusted {
		if p.Contains(in.Addr) {
			return true
		}
	}
	return slices.ContainsFunc(r.trust, func(trust func(*Incoming) bool) bool { return trust(in) })
}

// shared is the address space of RFC 6598, which some clusters give their pods.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// inside reports whether an address is of a kind that the internet does not
// route: loopback, private (RFC 1918, RFC 4193), link-local or shared.
func inside(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || shared.Contains(a)
}

func (r *Reader) tell(in *Incoming, result Result) {
	for _, o := range r.observers {
		o.IncomingDeadline(in.Protocol, result)
	}
}

// ParseAddr reads an address as it stands in http.Request.RemoteAddr and in the
// text of a net.Addr: with a port, and perhaps a zone. It is not valid where
// there is none.
func ParseAddr(hostPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().WithZone("").Unmap()
}

// unmapPrefix turns a prefix of IPv4 addresses mapped into IPv6 into what it
// means, since addresses are compared unmapped.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}
