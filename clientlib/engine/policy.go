package engine

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Library defaults: what holds where a document is silent. There is no default
// limit and no default retry.
const (
	defaultBackoffInitial = 10 * time.Millisecond
	defaultBackoffMax     = time.Second
	defaultBackoffFactor  = 2
	defaultReplayBytes    = 64 << 10
	defaultRetryAfterMax  = time.Minute
	defaultBudgetPercent  = 10
	defaultBudgetBurst    = 10
	defaultTripFailures   = 5
	defaultRecovery       = 30 * time.Second
	defaultHalfOpen       = 1
)

// Policy is the compiled rules of one upstream or route. It is immutable; zero
// durations mean no such limit.
type Policy struct {
	// What every call looks at comes first, close together: two lines of the
	// processor's cache, which a call that comes after other work finds cold.

	Total, Attempt, BodyIdle time.Duration
	// Scope is empty where nothing was said: Body, but Headers for streams.
	Scope document.Scope
	// MaxAttempts is at least 1.
	MaxAttempts int
	state       *State
	// Shadow says that nothing may be cut or retried.
	Shadow bool
	// IgnoreBudget says that the ambient budget does not shorten the call.
	IgnoreBudget bool
	hasBudget    bool
	hasBreaker   bool
	needsTracing bool
	listsGRPC    bool // retryGRPC is the policy's own word, not the default
	recorders    []Recorder
	firstTry     FirstTryRecorder // the recorder, where it is the only one and such
	// DeadlineHeader is in canonical form; empty for none.
	DeadlineHeader string

	// Upstream is the name in the document.
	Upstream string
	// Route is the name of the route; empty for the upstream's own rules.
	Route string

	DeadlineReserve         time.Duration
	Connect, ResponseHeader time.Duration

	Backoff Backoff
	// RetryKinds are the kinds after which an attempt is repeated.
	RetryKinds failure.Set
	// ReplayBytes bounds the copy of a request body.
	ReplayBytes int64
	// RetryAfterMax bounds the wait that a peer may ask for; negative when
	// Retry-After is ignored.
	RetryAfterMax time.Duration

	notation    deadline.Header // of DeadlineHeader, zero for plain milliseconds
	retryStatus statusSet
	retryGRPC   uint32
	methods     []string
	idemHeaders []string
	budget      budgetLimits
	breaker     breakerLimits
}

// statusSet holds HTTP status codes 400..599.
type statusSet [4]uint64

func (s *statusSet) add(code int) {
	if i := code - 400; i >= 0 && i < 200 {
		s[i/64] |= 1 << (i % 64)
	}
}

func (s *statusSet) has(code int) bool {
	i := code - 400
	return i >= 0 && i < 200 && s[i/64]&(1<<(i%64)) != 0
}

var (
	defaultStatus  = []int{429, 502, 503, 504}
	defaultMethods = []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"}
	defaultHeaders = []string{"Idempotency-Key"}
)

// GRPCCodes are the codes of the gRPC specification by number.
var GRPCCodes = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
	"NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

const grpcUnavailable = 14

func compile(r *document.Rules) Policy {
	p := Policy{MaxAttempts: 1, RetryAfterMax: defaultRetryAfterMax, ReplayBytes: defaultReplayBytes}
	if t := r.Timeouts; t != nil {
		p.Total, p.Attempt = std(t.Total), std(t.Attempt)
		p.Connect, p.ResponseHeader = std(t.Connect), std(t.ResponseHeader)
		p.BodyIdle, p.Scope = std(t.BodyIdle), constant(t.Scope, document.ScopeBody, document.ScopeHeaders)
	}
	p.needsTracing = p.Connect > 0 || p.ResponseHeader > 0
	compileRetry(&p, r.Retry)
	if d := r.Deadline; d != nil {
		if d.Header != "" {
			p.DeadlineHeader = strings.Clone(http.CanonicalHeaderKey(d.Header))
			if h := deadline.Named(p.DeadlineHeader); h != deadline.Milliseconds(p.DeadlineHeader) {
				p.notation = h
			}
		}
		p.DeadlineReserve = std(d.Reserve)
		p.IgnoreBudget = d.Inbound == document.InboundIgnore
	}
	if c := r.CircuitBreaker; c != nil {
		p.hasBreaker = true
		p.breaker = breakerLimits{
			failures: value(c.Failures, defaultTripFailures),
			recovery: valueDuration(c.Recovery, defaultRecovery),
			halfOpen: value(c.HalfOpen, defaultHalfOpen),
			trip:     kindSet(c.TripKinds, failure.DefaultTrip),
		}
	}
	return p
}

func compileRetry(p *Policy, r *document.Retry) {
	if r == nil {
		return
	}
	p.MaxAttempts = value(r.MaxAttempts, 1)
	p.Backoff = compileBackoff(r.Backoff)
	p.RetryKinds = kindSet(r.RetryableKinds, failure.DefaultRetryable) &^ failure.NeverRetryable
	for _, code := range orDefault(r.RetryableStatusCodes, defaultStatus) {
		p.retryStatus.add(code)
	}
	if r.RetryableGRPCCodes == nil {
		p.retryGRPC = 1 << grpcUnavailable
	}
	p.listsGRPC = r.RetryableGRPCCodes != nil
	for _, name := range r.RetryableGRPCCodes {
		if code := slices.Index(GRPCCodes[:], name); code > 0 {
			p.retryGRPC |= 1 << code
		}
	}
	p.methods = orDefault(ownList(r.Methods), defaultMethods)
	p.idemHeaders = defaultHeaders
	if r.IdempotencyHeaders != nil {
		p.idemHeaders = nil
		for _, h := range r.IdempotencyHeaders {
			p.idemHeaders = append(p.idemHeaders, strings.Clone(http.CanonicalHeaderKey(h)))
		}
	}
	if r.MaxReplayBytes != nil {
		p.ReplayBytes = *r.MaxReplayBytes
	}
	if a := r.RetryAfter; a != nil {
		p.RetryAfterMax = valueDuration(a.Max, defaultRetryAfterMax)
		if a.Mode == document.RetryAfterIgnore {
			p.RetryAfterMax = -1
		}
	}
	if b := r.Budget; b != nil {
		p.hasBudget = true
		p.budget = budgetLimits{
			percent: int64(value(b.Percent, defaultBudgetPercent)),
			burst:   int64(value(b.Burst, defaultBudgetBurst)),
		}
	}
}

func compileBackoff(b *document.Backoff) Backoff {
	out := Backoff{
		Initial: defaultBackoffInitial,
		Max:     defaultBackoffMax,
		Factor:  defaultBackoffFactor,
		Jitter:  document.JitterFull,
	}
	if b == nil {
		return out
	}
	out.Initial = valueDuration(b.Initial, out.Initial)
	out.Max = valueDuration(b.Max, out.Max)
	out.Factor = value(b.Factor, out.Factor)
	if b.Jitter != "" {
		out.Jitter = constant(b.Jitter, document.JitterFull, document.JitterEqual, document.JitterNone)
	}
	return out
}

// kindSet leaves out the kinds that this library does not know; the capability
// assessment reports them.
func kindSet(names []string, absent failure.Set) failure.Set {
	if names == nil {
		return absent
	}
	var s failure.Set
	for _, name := range names {
		if k, ok := failure.ParseKind(name); ok {
			s |= failure.NewSet(k)
		}
	}
	return s
}

func std(d *document.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Std()
}

func valueDuration(d *document.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	return d.Std()
}

func value(n *int, absent int) int {
	if n == nil {
		return absent
	}
	return *n
}

func orDefault[E any](list, absent []E) []E {
	if list == nil {
		return absent
	}
	return list
}

// Watches reports whether a phase limit (connect, responseHeader) is set, so
// that an adapter has to watch the phases of an attempt.
func (p *Policy) Watches() bool { return p.needsTracing }

// RetriesStatus reports whether an HTTP status asks for another attempt.
func (p *Policy) RetriesStatus(code int) bool { return p.retryStatus.has(code) }

// RetriesGRPC reports whether a gRPC code asks for another attempt.
func (p *Policy) RetriesGRPC(code int) bool {
	return code > 0 && code < len(GRPCCodes) && p.retryGRPC&(1<<code) != 0
}

// Repeatable reports whether a call may be made twice because of its method or
// because a header says that the peer recognises a repetition.
func (p *Policy) Repeatable(method string, header map[string][]string) bool {
	if method == "" {
		method = http.MethodGet
	}
	if slices.Contains(p.methods, method) {
		return true
	}
	for _, h := range p.idemHeaders {
		if len(header[h]) > 0 {
			return true
		}
	}
	return false
}
