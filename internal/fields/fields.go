// Package fields names every field of a policy's rules by its path, such as
// "retry.backoff.max", so that merging, provenance and explanations go over one
// list instead of each knowing the structure.
//
// The list is fixed; everything is safe for concurrent use.
package fields

import (
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// ID is the position of a field in [All].
type ID uint8

// Field is one field of document.Rules.
type Field struct {
	// Path inside the rules, such as "timeouts.total".
	Path string
	// Default is what holds where no policy sets the field, in words, as the
	// client library has it.
	Default string
	// Block says that the field is a block whose being there means something
	// by itself (circuitBreaker, retry.budget); its fields follow it in the
	// list and have its path as a prefix.
	Block bool

	get func(*document.Rules) any
	put func(*document.Rules, any)
}

// Get returns the value of the field, a pointer, a slice or a string type, and
// nil when it is absent. An empty slice is not absent. The value is shared with
// the rules and must not be changed.
func (f *Field) Get(r *document.Rules) any { return f.get(r) }

// Put sets the field to a value that Get returned for the same field, and makes
// the blocks around it.
func (f *Field) Put(r *document.Rules, value any) { f.put(r, value) }

// Names of fields that need to be found by their ID.
const (
	TimeoutsTotal ID = iota
	TimeoutsAttempt
	TimeoutsConnect
	TimeoutsResponseHeader
	TimeoutsBodyIdle
	TimeoutsScope
	RetryMaxAttempts
	RetryBackoffInitial
	RetryBackoffMax
	RetryBackoffFactor
	RetryBackoffJitter
	RetryKinds
	RetryStatusCodes
	RetryGRPCCodes
	RetryMethods
	RetryIdempotencyHeaders
	RetryMaxReplayBytes
	RetryAfterMode
	RetryAfterMax
	RetryBudget
	RetryBudgetPercent
	RetryBudgetBurst
	DeadlineHeader
	DeadlineReserve
	DeadlineInbound
	CircuitBreaker
	CircuitBreakerFailures
	CircuitBreakerRecovery
	CircuitBreakerHalfOpen
	CircuitBreakerTripKinds

	// Count is the number of fields.
	Count int = iota
)

// All is every field by its ID, outermost limits first, as people read them.
// Treat it as read only.
var All = [Count]Field{
	TimeoutsTotal:          duration("timeouts.total", "no limit", func(t *document.Timeouts) **document.Duration { return &t.Total }, timeouts),
	TimeoutsAttempt:        duration("timeouts.attempt", "no limit", func(t *document.Timeouts) **document.Duration { return &t.Attempt }, timeouts),
	TimeoutsConnect:        duration("timeouts.connect", "no limit", func(t *document.Timeouts) **document.Duration { return &t.Connect }, timeouts),
	TimeoutsResponseHeader: duration("timeouts.responseHeader", "no limit", func(t *document.Timeouts) **document.Duration { return &t.ResponseHeader }, timeouts),
	TimeoutsBodyIdle:       duration("timeouts.bodyIdle", "no limit", func(t *document.Timeouts) **document.Duration { return &t.BodyIdle }, timeouts),
	TimeoutsScope:          text("timeouts.scope", "Body", func(t *document.Timeouts) *document.Scope { return &t.Scope }, timeouts),

	RetryMaxAttempts:        pointer("retry.maxAttempts", "1", func(r *document.Retry) **int { return &r.MaxAttempts }, retry),
	RetryBackoffInitial:     duration("retry.backoff.initial", "10ms", func(b *document.Backoff) **document.Duration { return &b.Initial }, backoff),
	RetryBackoffMax:         duration("retry.backoff.max", "1s", func(b *document.Backoff) **document.Duration { return &b.Max }, backoff),
	RetryBackoffFactor:      pointer("retry.backoff.factor", "2", func(b *document.Backoff) **int { return &b.Factor }, backoff),
	RetryBackoffJitter:      text("retry.backoff.jitter", "Full", func(b *document.Backoff) *document.Jitter { return &b.Jitter }, backoff),
	RetryKinds:              list("retry.retryableKinds", "ConnectTimeout, ConnectError, DNSError, PoolTimeout, AttemptTimeout, ReadTimeout, Disconnected, Unprocessed", func(r *document.Retry) *[]string { return &r.RetryableKinds }, retry),
	RetryStatusCodes:        list("retry.retryableStatusCodes", "429, 502, 503, 504", func(r *document.Retry) *[]int { return &r.RetryableStatusCodes }, retry),
	RetryGRPCCodes:          list("retry.retryableGRPCCodes", "UNAVAILABLE", func(r *document.Retry) *[]string { return &r.RetryableGRPCCodes }, retry),
	RetryMethods:            list("retry.methods", "GET, HEAD, PUT, DELETE, OPTIONS, TRACE", func(r *document.Retry) *[]string { return &r.Methods }, retry),
	RetryIdempotencyHeaders: list("retry.idempotencyHeaders", "Idempotency-Key", func(r *document.Retry) *[]string { return &r.IdempotencyHeaders }, retry),
	RetryMaxReplayBytes:     pointer("retry.maxReplayBytes", "65536", func(r *document.Retry) **int64 { return &r.MaxReplayBytes }, retry),
	RetryAfterMode:          text("retry.retryAfter.mode", "Honor", func(a *document.RetryAfter) *document.RetryAfterMode { return &a.Mode }, retryAfter),
	RetryAfterMax:           duration("retry.retryAfter.max", "60s", func(a *document.RetryAfter) **document.Duration { return &a.Max }, retryAfter),
	RetryBudget:             block("retry.budget", "unbounded", budget),
	RetryBudgetPercent:      pointer("retry.budget.percent", "10", func(b *document.Budget) **int { return &b.Percent }, budget),
	RetryBudgetBurst:        pointer("retry.budget.burst", "10", func(b *document.Budget) **int { return &b.Burst }, budget),

	DeadlineHeader:  text("deadline.header", "none", func(d *document.Deadline) *string { return &d.Header }, deadline),
	DeadlineReserve: duration("deadline.reserve", "0s", func(d *document.Deadline) **document.Duration { return &d.Reserve }, deadline),
	DeadlineInbound: text("deadline.inbound", "Shorten", func(d *document.Deadline) *document.Inbound { return &d.Inbound }, deadline),

	CircuitBreaker:          block("circuitBreaker", "none", breaker),
	CircuitBreakerFailures:  pointer("circuitBreaker.failures", "5", func(c *document.CircuitBreaker) **int { return &c.Failures }, breaker),
	CircuitBreakerRecovery:  duration("circuitBreaker.recovery", "30s", func(c *document.CircuitBreaker) **document.Duration { return &c.Recovery }, breaker),
	CircuitBreakerHalfOpen:  pointer("circuitBreaker.halfOpen", "1", func(c *document.CircuitBreaker) **int { return &c.HalfOpen }, breaker),
	CircuitBreakerTripKinds: list("circuitBreaker.tripKinds", "every timeout and connection kind, ProtocolError, status 500 and above", func(c *document.CircuitBreaker) *[]string { return &c.TripKinds }, breaker),
}
