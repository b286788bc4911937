package v1alpha1

// Rules are what defaults, an upstream and a route have in common. Each field
// that is absent is inherited from the next lower layer.
type Rules struct {
	// Timeouts of a call and its parts.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`
	// Retry says when a failed attempt is repeated. Without a retry block in any
	// layer nothing is repeated.
	// +optional
	Retry *Retry `json:"retry,omitempty"`
	// Deadline says how what is left of a call's time travels on.
	// +optional
	Deadline *Deadline `json:"deadline,omitempty"`
	// CircuitBreaker leaves a failing upstream alone for a while. Without a
	// circuitBreaker block in any layer there is none; an empty block turns it on
	// with its defaults.
	// +optional
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitempty"`
}

// Scope says where a total ends.
//
// +kubebuilder:validation:Enum=Body;Headers
type Scope string

// The scopes.
const (
	// ScopeBody ends the total with the response body; it is the default.
	ScopeBody Scope = "Body"
	// ScopeHeaders ends the total at the response headers.
	ScopeHeaders Scope = "Headers"
)

// Timeouts are the time limits of a call, outermost first. For each: absent
// means inherited, and no limit where nothing is inherited; "0s" means no such
// limit, also where one would be inherited. An outer limit always clamps what
// lies inside it.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.attempt) || !has(self.total) || !self.attempt.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || !self.total.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.total) <= duration('0s') || duration(self.attempt) <= duration(self.total)`,fieldPath=".attempt",message="attempt must not be longer than total: shorten attempt or raise total (\"0s\" for no limit)"
// +kubebuilder:validation:XValidation:rule=`!has(self.connect) || !has(self.attempt) || !self.connect.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || !self.attempt.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.attempt) <= duration('0s') || duration(self.connect) <= duration(self.attempt)`,fieldPath=".connect",message="connect must not be longer than attempt: shorten connect or raise attempt (\"0s\" for no limit)"
// +kubebuilder:validation:XValidation:rule=`!has(self.responseHeader) || !has(self.attempt) || !self.responseHeader.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || !self.attempt.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.attempt) <= duration('0s') || duration(self.responseHeader) <= duration(self.attempt)`,fieldPath=".responseHeader",message="responseHeader must not be longer than attempt: shorten responseHeader or raise attempt (\"0s\" for no limit)"
type Timeouts struct {
	// Total limits the whole logical call by the wall clock: all attempts,
	// backoff, redirects and, with scope Body, the response body. Reaching it is
	// the failure kind TotalTimeout. A shorter deadline of the caller or of the
	// request being served goes first.
	// +optional
	Total *Duration `json:"total,omitempty"`
	// Attempt limits each try, the first included, until the response headers
	// (on gRPC the unary reply) are there. Kind AttemptTimeout. Not longer than
	// total; the last attempt is cut by what is left of the total.
	// +optional
	Attempt *Duration `json:"attempt,omitempty"`
	// Connect limits the wait for a connection: DNS, dial and TLS handshake.
	// Kind ConnectTimeout. Not longer than attempt. An attempt on a connection
	// that is open already does not feel it.
	// +optional
	Connect *Duration `json:"connect,omitempty"`
	// ResponseHeader limits the wait from the written request to the first byte
	// of the response. Kind ReadTimeout. Not longer than attempt.
	// +optional
	ResponseHeader *Duration `json:"responseHeader,omitempty"`
	// BodyIdle limits the gap between two reads of the response body. Kind
	// ReadTimeout. It may be longer than attempt, which ends at the headers.
	// +optional
	BodyIdle *Duration `json:"bodyIdle,omitempty"`
	// Scope: Body ends the total with the response body, Headers at the response
	// headers, so that long downloads survive. Absent: inherited, in the end
	// Body, but streams (upgrades, text/event-stream, gRPC streams) end theirs
	// at the headers unless the route itself says Body.
	// +optional
	Scope Scope `json:"scope,omitempty"`
}

// FailureKind says why an attempt failed. The list is closed.
//
// +kubebuilder:validation:Enum=ConnectTimeout;ConnectError;DNSError;TLSError;PoolTimeout;AttemptTimeout;ReadTimeout;WriteTimeout;TotalTimeout;Disconnected;Unprocessed;ProtocolError;BodyError;Status;Cancelled;CircuitOpen;Unknown
type FailureKind string

// GRPCCode is a status code in the spelling of the gRPC specification.
//
// +kubebuilder:validation:Enum=CANCELLED;UNKNOWN;INVALID_ARGUMENT;DEADLINE_EXCEEDED;NOT_FOUND;ALREADY_EXISTS;PERMISSION_DENIED;RESOURCE_EXHAUSTED;FAILED_PRECONDITION;ABORTED;OUT_OF_RANGE;UNIMPLEMENTED;INTERNAL;UNAVAILABLE;DATA_LOSS;UNAUTHENTICATED
type GRPCCode string

// StatusCode is an HTTP status that says failure, 400 to 599.
//
// +kubebuilder:validation:Minimum=400
// +kubebuilder:validation:Maximum=599
type StatusCode int32

// Token is an HTTP method or field name (RFC 9110, section 5.6.2), 1 to 64
// characters.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
type Token string

// Retry says when a failed attempt is repeated. A retry must be allowed by the
// kind of failure, by the request (method, idempotency, a body that can be sent
// again), by the budget and by what is left of the total. For lists: absent
// means inherited, in the end the default named there; an empty list means
// none.
type Retry struct {
	// MaxAttempts counts every request of a call, the first included, 1 to 10: 3
	// means up to three requests. 1 means exactly one attempt, also where more
	// would be inherited; 0 is refused. Absent: inherited, in the end 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10",message="maxAttempts counts the first request too and goes from 1 to 10: write 1 for exactly one attempt, without any retry"
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`
	// Backoff between attempts.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
	// RetryableKinds are the failure kinds after which an attempt is repeated.
	// Absent: inherited, in the end ConnectTimeout, ConnectError, DNSError,
	// PoolTimeout, AttemptTimeout, ReadTimeout, Disconnected and Unprocessed.
	// TotalTimeout, Cancelled and CircuitOpen end the call and are never
	// repeated. Status repeats every failed response, whatever its code. A kind that a client never reports shows up in
	// status.deadRetryableKinds.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=17
	RetryableKinds []FailureKind `json:"retryableKinds,omitzero"`
	// RetryableStatusCodes are the HTTP status codes after which an attempt is
	// repeated, 400 to 599, at most 32. Absent: inherited, in the end 429, 502,
	// 503 and 504.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	RetryableStatusCodes []StatusCode `json:"retryableStatusCodes,omitzero"`
	// RetryableGRPCCodes are the gRPC codes after which an attempt is repeated.
	// Absent: inherited, in the end UNAVAILABLE.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	RetryableGRPCCodes []GRPCCode `json:"retryableGRPCCodes,omitzero"`
	// Methods that may be repeated, at most 16, letter case matters. Absent:
	// inherited, in the end the idempotent ones of RFC 9110: GET, HEAD, PUT,
	// DELETE, OPTIONS and TRACE. A failure of the kind Unprocessed may repeat any
	// method, since the peer said that it did nothing; a call site may vouch for
	// its own call.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Methods []Token `json:"methods,omitzero"`
	// IdempotencyHeaders are request headers whose presence makes any method
	// repeatable, at most 8. Absent: inherited, in the end Idempotency-Key.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	IdempotencyHeaders []Token `json:"idempotencyHeaders,omitzero"`
	// MaxReplayBytes bounds how many bytes of a request body that the library
	// cannot produce again are kept for another attempt, 0 to 16777216. 0: none,
	// such a request is not repeated. Absent: inherited, in the end 65536.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777216
	MaxReplayBytes *int64 `json:"maxReplayBytes,omitempty"`
	// RetryAfter says how far a peer's Retry-After is followed.
	// +optional
	RetryAfter *RetryAfter `json:"retryAfter,omitempty"`
	// Budget bounds retry traffic, per upstream and process. Without a budget
	// block in any layer it is not bounded; an empty block turns it on with its
	// defaults.
	// +optional
	Budget *Budget `json:"budget,omitempty"`
}

// Jitter says how a backoff is randomised.
//
// +kubebuilder:validation:Enum=Full;Equal;None
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
// jitter. A backoff that would pass the total ends the call at once.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.initial) || !has(self.max) || !self.initial.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || !self.max.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.max) <= duration('0s') || duration(self.initial) <= duration(self.max)`,fieldPath=".initial",message="initial must not be longer than max: shorten initial or raise max (\"0s\" for no limit)"
type Backoff struct {
	// Initial wait. "0s": no wait. Absent: inherited, in the end 10ms. Not longer
	// than max.
	// +optional
	Initial *Duration `json:"initial,omitempty"`
	// Max is the longest wait. "0s": no such limit. Absent: inherited, in the end
	// 1s.
	// +optional
	Max *Duration `json:"max,omitempty"`
	// Factor from one wait to the next, 1 to 10; 1 keeps it constant. Absent:
	// inherited, in the end 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Factor *int32 `json:"factor,omitempty"`
	// Jitter: Full waits a random time between zero and the backoff, Equal half
	// of it and a random time up to the other half, None the backoff itself.
	// Absent: inherited, in the end Full.
	// +optional
	Jitter Jitter `json:"jitter,omitempty"`
}

// RetryAfterMode says whether a peer's Retry-After is followed.
//
// +kubebuilder:validation:Enum=Honor;Ignore
type RetryAfterMode string

// The modes of following a Retry-After.
const (
	// RetryAfterHonor waits at least as long as the peer asks, up to Max; it is
	// the default.
	RetryAfterHonor RetryAfterMode = "Honor"
	// RetryAfterIgnore uses the backoff alone.
	RetryAfterIgnore RetryAfterMode = "Ignore"
)

// RetryAfter bounds the wait that a peer may ask for.
type RetryAfter struct {
	// Mode: Honor waits at least as long as the peer asks, up to max; Ignore uses
	// the backoff alone. Absent: inherited, in the end Honor.
	// +optional
	Mode RetryAfterMode `json:"mode,omitempty"`
	// Max is the longest wait that a peer may ask for; a longer one ends the
	// call. "0s": a peer may ask for no longer wait than the backoff. Absent:
	// inherited, in the end 60s.
	// +optional
	Max *Duration `json:"max,omitempty"`
}

// Budget is a bucket that holds burst tokens at start and at most; each call
// adds percent/100 of a token, each retry takes one. An empty bucket means no
// retry.
type Budget struct {
	// Percent of the calls that may be retries in the long run, 0 to 100. 0: only
	// the burst. Absent: inherited, in the end 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// Burst of retries beyond the percentage, 0 to 100000. Absent: inherited, in
	// the end 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Burst *int32 `json:"burst,omitempty"`
}

// Inbound says what the budget of the request being served does to a call.
//
// +kubebuilder:validation:Enum=Shorten;Ignore
type Inbound string

// The reactions to the budget of the request being served.
const (
	// InboundShorten lets it shorten the total; it is the default.
	InboundShorten Inbound = "Shorten"
	// InboundIgnore makes the call independent of it.
	InboundIgnore Inbound = "Ignore"
)

// Deadline says how what is left of a call's time travels on, and what the time
// left of the request being served does to the call.
type Deadline struct {
	// Header that carries the whole milliseconds left to the upstream, such as
	// X-Deadline-Ms; at most 64 characters, and none that has a meaning already,
	// such as Host or Authorization. "": no header, also where one would be
	// inherited. Absent: inherited, in the end no header.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_`|~-]*$"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['accept', 'accept-encoding', 'authorization', 'baggage', 'connection', 'content-encoding', 'content-length', 'content-type', 'cookie', 'date', 'expect', 'forwarded', 'host', 'idempotency-key', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'range', 'referer', 'retry-after', 'te', 'traceparent', 'tracestate', 'trailer', 'transfer-encoding', 'upgrade', 'user-agent', 'via'])",message="header must not be one that has a meaning already: name one of your own, such as X-Deadline-Ms"
	Header *string `json:"header,omitempty"`
	// Reserve is kept back from what the header tells and the inbound budget
	// gives, for the caller's own reply. "0s": nothing. Absent: inherited, in the
	// end 0s.
	// +optional
	Reserve *Duration `json:"reserve,omitempty"`
	// Inbound: Shorten lets the time left of the request being served shorten the
	// total; Ignore makes the call independent of it. Absent: inherited, in the
	// end Shorten.
	// +optional
	Inbound Inbound `json:"inbound,omitempty"`
}

// CircuitBreaker opens after failures calls failed in a row, refuses calls for
// recovery (kind CircuitOpen), then lets halfOpen probes through. It counts one
// signal per call, not per attempt, and lives per upstream and process.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.recovery) || !self.recovery.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.recovery) > duration('0s')`,fieldPath=".recovery",message="recovery must be longer than 0s: write how long the breaker stays open, such as \"30s\""
type CircuitBreaker struct {
	// Failures in a row that open the breaker, 1 to 10000. Absent: inherited, in
	// the end 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Failures *int32 `json:"failures,omitempty"`
	// Recovery is how long the breaker stays open before it lets probes through;
	// "0s" is refused. Absent: inherited, in the end 30s.
	// +optional
	Recovery *Duration `json:"recovery,omitempty"`
	// HalfOpen is how many probes may run at once, and must succeed, before the
	// breaker closes, 1 to 100. Absent: inherited, in the end 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HalfOpen *int32 `json:"halfOpen,omitempty"`
	// TripKinds are the failure kinds that count. Absent: inherited, in the end
	// every timeout and connection kind, ProtocolError, and status 500 and above.
	// An empty list means none: the breaker never opens.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=17
	TripKinds []FailureKind `json:"tripKinds,omitzero"`
}
