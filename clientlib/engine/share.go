package engine

import (
	"slices"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// An upstream that a new document leaves as it was is taken over as it is built:
// its policies, the handles of its observers, its state. It may so outlive the
// document it came from by far, and must not keep that in memory: strings of a
// parsed document are parts of its text. What is built therefore has copies.

// unchanged returns the upstream that was built from an equal entry; nil for none.
func (s *Snapshot) unchanged(d *document.Upstream) *upstream {
	if s == nil || len(d.Hosts) == 0 {
		return nil
	}
	p, err := document.ParseHostPattern(d.Hosts[0])
	if err != nil {
		return nil
	}
	u := s.at(p, d.Name)
	if u == nil || !sameUpstream(u.source, d) {
		return nil
	}
	return u
}

// sameUpstream reports whether two entries give the same policies. Where a value
// comes from and what a client does that cannot honour it are not part of them.
func sameUpstream(a, b *document.Upstream) bool {
	return a.Name == b.Name && a.Mode == b.Mode && slices.Equal(a.Hosts, b.Hosts) &&
		sameRules(&a.Rules, &b.Rules) && slices.EqualFunc(a.Routes, b.Routes, sameRoute)
}

func sameRoute(a, b document.Route) bool {
	return a.Name == b.Name && sameMatch(&a.Match, &b.Match) && sameRules(&a.Rules, &b.Rules)
}

func sameMatch(a, b *document.Match) bool {
	return a.Path == b.Path && a.PathMatch == b.PathMatch && slices.Equal(a.Methods, b.Methods) && same(a.GRPC, b.GRPC)
}

func sameRules(a, b *document.Rules) bool {
	return both(a.Timeouts, b.Timeouts, sameTimeouts) && both(a.Retry, b.Retry, sameRetry) &&
		both(a.Deadline, b.Deadline, sameDeadline) && both(a.CircuitBreaker, b.CircuitBreaker, sameBreaker)
}

func sameTimeouts(a, b *document.Timeouts) bool {
	return same(a.Total, b.Total) && same(a.Attempt, b.Attempt) && same(a.Connect, b.Connect) &&
		same(a.ResponseHeader, b.ResponseHeader) && same(a.BodyIdle, b.BodyIdle) && a.Scope == b.Scope
}

func sameRetry(a, b *document.Retry) bool {
	return same(a.MaxAttempts, b.MaxAttempts) && same(a.MaxReplayBytes, b.MaxReplayBytes) &&
		sameList(a.RetryableKinds, b.RetryableKinds) && sameList(a.RetryableStatusCodes, b.RetryableStatusCodes) &&
		sameList(a.RetryableGRPCCodes, b.RetryableGRPCCodes) && sameList(a.Methods, b.Methods) &&
		sameList(a.IdempotencyHeaders, b.IdempotencyHeaders) && both(a.Backoff, b.Backoff, sameBackoff) &&
		both(a.RetryAfter, b.RetryAfter, sameRetryAfter) && both(a.Budget, b.Budget, sameBudget)
}

func sameBackoff(a, b *document.Backoff) bool {
	return same(a.Initial, b.Initial) && same(a.Max, b.Max) && same(a.Factor, b.Factor) && a.Jitter == b.Jitter
}

func sameRetryAfter(a, b *document.RetryAfter) bool { return a.Mode == b.Mode && same(a.Max, b.Max) }

func sameBudget(a, b *document.Budget) bool {
	return same(a.Percent, b.Percent) && same(a.Burst, b.Burst)
}

func sameDeadline(a, b *document.Deadline) bool {
	return a.Header == b.Header && same(a.Reserve, b.Reserve) && a.Inbound == b.Inbound
}

func sameBreaker(a, b *document.CircuitBreaker) bool {
	return same(a.Failures, b.Failures) && same(a.Recovery, b.Recovery) && same(a.HalfOpen, b.HalfOpen) && sameList(a.TripKinds, b.TripKinds)
}

// both compares what two pointers point at; nil is the same as nil only.
func both[T any](a, b *T, equal func(a, b *T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equal(a, b)
}

func same[T comparable](a, b *T) bool { return both(a, b, func(a, b *T) bool { return *a == *b }) }

// sameList tells absent from empty.
func sameList[E comparable](a, b []E) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

func ownList(list []string) []string {
	if list == nil {
		return nil
	}
	own := make([]string, len(list))
	for i, s := range list {
		own[i] = strings.Clone(s)
	}
	return own
}

func ownMatch(m document.Match) document.Match {
	m.Methods, m.Path = ownList(m.Methods), strings.Clone(m.Path)
	m.PathMatch = constant(m.PathMatch, document.PathExact, document.PathPrefix)
	if m.GRPC != nil {
		m.GRPC = &document.GRPCMatch{Service: strings.Clone(m.GRPC.Service), Method: strings.Clone(m.GRPC.Method)}
	}
	return m
}

// constant returns the one of some constants that a word is; "" for none.
func constant[E ~string](word E, known ...E) E {
	if i := slices.Index(known, word); i >= 0 {
		return known[i]
	}
	return ""
}
