package document

// Schema is the number of the document format that this package writes. A
// reader refuses every other number.
const Schema = 1

// MaxBytes is the largest document that a reader accepts: a ConfigMap cannot
// hold more.
const MaxBytes = 1 << 20

// Document is the resolved policy of one client, or of every client of a
// namespace that no policy names.
type Document struct {
	// Schema is always [Schema].
	Schema int `json:"schema"`
	// Revision is "sha256:" and the digest of the canonical content. A reader
	// refuses a document whose revision does not fit its content; absent, it
	// is computed, so that a file can be written by hand.
	Revision string `json:"revision,omitempty"`
	// Namespace of the policies.
	Namespace string `json:"namespace,omitempty"`
	// Client is the client name the document is for; empty means every client
	// of the namespace that has no document of its own.
	Client string `json:"client,omitempty"`
	// Tombstone says that there is no policy any more, on purpose. It is the
	// only thing that takes a policy away from a running client: a missing or
	// empty file never does. A tombstone has no upstreams.
	Tombstone bool `json:"tombstone,omitempty"`
	// Policies that the document was made from, with the generation used.
	Policies []PolicyRef `json:"policies,omitempty"`
	// Upstreams by name. Host patterns are disjoint over the whole document.
	Upstreams []Upstream `json:"upstreams,omitempty"`

	unknown []string
}

// UnknownFields lists the paths of fields that the document has and this
// version of the library does not know, sorted. They are ignored, not refused,
// so that an older client can read what a newer operator writes.
func (d *Document) UnknownFields() []string { return d.unknown }

// PolicyRef names a TimeoutPolicy at one generation.
type PolicyRef struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation"`
}

// Mode says what a client does with an upstream's rules.
type Mode string

// The modes. In a document "Disabled" does not occur: such a policy is not
// rendered.
const (
	// ModeEnforce applies the rules; it is the default.
	ModeEnforce Mode = "Enforce"
	// ModeShadow measures what would be cut or retried and changes nothing.
	ModeShadow Mode = "Shadow"
)

// OnUnsupported says what a client does with rules that it cannot honour.
type OnUnsupported string

// The reactions.
const (
	// UnsupportedReport applies the rest and reports the gap; it is the default.
	UnsupportedReport OnUnsupported = "Report"
	// UnsupportedReject refuses the whole document and keeps the last good one.
	UnsupportedReject OnUnsupported = "Reject"
)

// Upstream is one service with its effective rules.
type Upstream struct {
	// Name as in the policy; the value of the metric label "upstream". Several
	// entries may share a name when policies treat some hosts differently.
	Name string `json:"name"`
	// Hosts are patterns, see [ParseHostPattern].
	Hosts []string `json:"hosts"`
	// Mode; absent means Enforce.
	Mode Mode `json:"mode,omitempty"`
	// OnUnsupported; absent means Report.
	OnUnsupported OnUnsupported `json:"onUnsupported,omitempty"`
	Rules
	// Provenance maps the path of each effective field, such as
	// "timeouts.total", to the policy that set it, such as "shop/checkout@3".
	Provenance map[string]string `json:"provenance,omitempty"`
	// Routes with rules of their own. The most specific match wins, see
	// [Match.Compare]; values are effective, nothing is inherited by a reader.
	Routes []Route `json:"routes,omitempty"`
}

// Route is a part of an upstream's calls with effective rules of its own.
type Route struct {
	// Name as in the policy; the value of the metric label "route". Several
	// routes may share a name when policies treat some of the calls differently.
	Name  string `json:"name"`
	Match Match  `json:"match"`
	Rules
	Provenance map[string]string `json:"provenance,omitempty"`
}

// Rules are what an upstream and a route have in common. A nil block or field
// is absent: the library default holds, which is no limit and no retry.
type Rules struct {
	Timeouts       *Timeouts       `json:"timeouts,omitempty"`
	Retry          *Retry          `json:"retry,omitempty"`
	Deadline       *Deadline       `json:"deadline,omitempty"`
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitempty"`
}

// Scope says where a total ends.
type Scope string

// The scopes.
const (
	// ScopeBody ends the total with the response body; it is the default.
	ScopeBody Scope = "Body"
	// ScopeHeaders ends the total at the response headers.
	ScopeHeaders Scope = "Headers"
)

// Timeouts are the time limits of a call. Absent and "0s" both mean no limit.
// A total clamps whatever lies inside it.
type Timeouts struct {
	// Total limits the logical call: attempts, backoff, redirects and, with
	// scope Body, the response body.
	Total *Duration `json:"total,omitempty"`
	// Attempt limits each try until the response headers (gRPC: unary reply).
	Attempt *Duration `json:"attempt,omitempty"`
	// Connect limits DNS, dial and TLS handshake.
	Connect *Duration `json:"connect,omitempty"`
	// ResponseHeader limits the wait from the written request to the first
	// byte of the response.
	ResponseHeader *Duration `json:"responseHeader,omitempty"`
	// BodyIdle limits the gap between two reads of the response body.
	BodyIdle *Duration `json:"bodyIdle,omitempty"`
	// Scope of the total; absent means Body, but streams end theirs at the
	// headers unless Body is said explicitly on the route.
	Scope Scope `json:"scope,omitempty"`
}

// Retry says when a failed attempt is repeated. Without a Retry block, or
// without maxAttempts, nothing is.
type Retry struct {
	// MaxAttempts counts every request, the first included: 1..10. Absent
	// means 1.
	MaxAttempts *int `json:"maxAttempts,omitempty"`
	// Backoff between attempts.
	Backoff *Backoff `json:"backoff,omitempty"`
	// RetryableKinds in API spelling. Nil means failure.DefaultRetryable, an
	// empty list none. Kinds this library does not know are kept and reported.
	RetryableKinds []string `json:"retryableKinds,omitzero"`
	// RetryableStatusCodes 400..599. Nil means 429, 502, 503 and 504.
	RetryableStatusCodes []int `json:"retryableStatusCodes,omitzero"`
	// RetryableGRPCCodes in the spelling of the gRPC specification. Nil means
	// UNAVAILABLE.
	RetryableGRPCCodes []string `json:"retryableGRPCCodes,omitzero"`
	// Methods that may be repeated. Nil means the idempotent ones of RFC 9110:
	// GET, HEAD, PUT, DELETE, OPTIONS and TRACE.
	Methods []string `json:"methods,omitzero"`
	// IdempotencyHeaders whose presence makes any method repeatable. Nil means
	// Idempotency-Key.
	IdempotencyHeaders []string `json:"idempotencyHeaders,omitzero"`
	// MaxReplayBytes bounds how much of a request body without GetBody is kept
	// for another attempt. Absent means 65536, 0 none.
	MaxReplayBytes *int64 `json:"maxReplayBytes,omitempty"`
	// RetryAfter says how far a peer's Retry-After is followed.
	RetryAfter *RetryAfter `json:"retryAfter,omitempty"`
	// Budget bounds retry traffic; absent means unbounded.
	Budget *Budget `json:"budget,omitempty"`
}

// Jitter says how a backoff is randomised.
type Jitter string

// The jitters.
const (
	// JitterFull waits a random time between zero and the backoff; it is the
	// default.
	JitterFull Jitter = "Full"
	// JitterEqual waits half of the backoff and a random time up to the other
	// half.
	JitterEqual Jitter = "Equal"
	// JitterNone waits the backoff.
	JitterNone Jitter = "None"
)

// Backoff before retry n (1, 2, …) is min(max, initial * factor^(n-1)), then
// jitter. Absent fields mean 10ms, 1s, 2 and Full.
type Backoff struct {
	Initial *Duration `json:"initial,omitempty"`
	Max     *Duration `json:"max,omitempty"`
	// Factor 1..10.
	Factor *int   `json:"factor,omitempty"`
	Jitter Jitter `json:"jitter,omitempty"`
}

// RetryAfterMode says whether a peer's Retry-After is followed.
type RetryAfterMode string

// The modes.
const (
	// RetryAfterHonor waits at least as long as the peer asks, up to Max; it is
	// the default.
	RetryAfterHonor RetryAfterMode = "Honor"
	// RetryAfterIgnore uses the backoff alone.
	RetryAfterIgnore RetryAfterMode = "Ignore"
)

// RetryAfter bounds the wait that a peer may ask for. Absent fields mean Honor
// and 60s. "0s" as Max means that no longer wait than the backoff is taken.
type RetryAfter struct {
	Mode RetryAfterMode `json:"mode,omitempty"`
	Max  *Duration      `json:"max,omitempty"`
}

// Budget bounds retries of an upstream within one process: a bucket that holds
// Burst tokens at start and at most; each call adds Percent/100 of a token,
// each retry takes one. Absent fields mean 10 and 10.
type Budget struct {
	Percent *int `json:"percent,omitempty"`
	Burst   *int `json:"burst,omitempty"`
}

// Inbound says what the ambient budget of the request being served does to a
// call.
type Inbound string

// The reactions.
const (
	// InboundShorten lets the ambient budget shorten the total; it is the default.
	InboundShorten Inbound = "Shorten"
	// InboundIgnore makes the call independent of the ambient budget.
	InboundIgnore Inbound = "Ignore"
)

// Deadline says how what is left travels with the request.
type Deadline struct {
	// Header that carries the remaining whole milliseconds; absent means none.
	Header string `json:"header,omitempty"`
	// Reserve kept back for the caller's own reply; absent means 0s.
	Reserve *Duration `json:"reserve,omitempty"`
	// Inbound; absent means Shorten.
	Inbound Inbound `json:"inbound,omitempty"`
}

// CircuitBreaker opens after Failures calls failed in a row, refuses calls for
// Recovery, then lets HalfOpen probes through. Absent fields mean 5, 30s and 1.
type CircuitBreaker struct {
	Failures *int      `json:"failures,omitempty"`
	Recovery *Duration `json:"recovery,omitempty"`
	HalfOpen *int      `json:"halfOpen,omitempty"`
	// TripKinds in API spelling. Nil means failure.DefaultTrip.
	TripKinds []string `json:"tripKinds,omitzero"`
}

// PathMatch says how Match.Path is compared.
type PathMatch string

// The comparisons.
const (
	// PathExact wants the whole path.
	PathExact PathMatch = "Exact"
	// PathPrefix wants whole leading path elements: /v1/refunds and
	// /v1/refunds/ match /v1/refunds and /v1/refunds/7, but not
	// /v1/refundslist. It is the default.
	PathPrefix PathMatch = "Prefix"
)

// Match selects calls. Every field that is set must match; an empty Match
// matches every call. GRPC excludes Methods and Path.
type Match struct {
	Methods   []string   `json:"methods,omitempty"`
	Path      string     `json:"path,omitempty"`
	PathMatch PathMatch  `json:"pathMatch,omitempty"`
	GRPC      *GRPCMatch `json:"grpc,omitempty"`
}

// GRPCMatch selects gRPC calls by full service name, such as "shop.v1.Orders",
// and method; an absent method means every method of the service.
type GRPCMatch struct {
	Service string `json:"service,omitempty"`
	Method  string `json:"method,omitempty"`
}
