package plan

import (
	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// rules turns the rules of the API into those of documents, which have the same
// fields. A duration that cannot be read is a fault and left out.
func (p *parser) rules(path string, r *v1alpha1.Rules) document.Rules {
	var out document.Rules
	if t := r.Timeouts; t != nil {
		at := path + ".timeouts."
		out.Timeouts = &document.Timeouts{
			Total:          p.duration(at+"total", t.Total),
			Attempt:        p.duration(at+"attempt", t.Attempt),
			Connect:        p.duration(at+"connect", t.Connect),
			ResponseHeader: p.duration(at+"responseHeader", t.ResponseHeader),
			BodyIdle:       p.duration(at+"bodyIdle", t.BodyIdle),
			Scope:          document.Scope(t.Scope),
		}
	}
	if r.Retry != nil {
		out.Retry = p.retry(path+".retry", r.Retry)
	}
	if d := r.Deadline; d != nil {
		out.Deadline = &document.Deadline{
			Reserve: p.duration(path+".deadline.reserve", d.Reserve),
			Inbound: document.Inbound(d.Inbound),
		}
		if d.Header != nil {
			out.Deadline.Header = *d.Header
		}
	}
	if c := r.CircuitBreaker; c != nil {
		out.CircuitBreaker = &document.CircuitBreaker{
			Failures:  integer(c.Failures),
			Recovery:  p.duration(path+".circuitBreaker.recovery", c.Recovery),
			HalfOpen:  integer(c.HalfOpen),
			TripKinds: texts(c.TripKinds),
		}
	}
	return out
}

func (p *parser) retry(path string, r *v1alpha1.Retry) *document.Retry {
	out := &document.Retry{
		MaxAttempts:          integer(r.MaxAttempts),
		RetryableKinds:       texts(r.RetryableKinds),
		RetryableStatusCodes: integers(r.RetryableStatusCodes),
		RetryableGRPCCodes:   texts(r.RetryableGRPCCodes),
		Methods:              texts(r.Methods),
		IdempotencyHeaders:   texts(r.IdempotencyHeaders),
		MaxReplayBytes:       r.MaxReplayBytes,
	}
	if b := r.Backoff; b != nil {
		out.Backoff = &document.Backoff{
			Initial: p.duration(path+".backoff.initial", b.Initial),
			Max:     p.duration(path+".backoff.max", b.Max),
			Factor:  integer(b.Factor),
			Jitter:  document.Jitter(b.Jitter),
		}
	}
	if a := r.RetryAfter; a != nil {
		out.RetryAfter = &document.RetryAfter{
			Mode: document.RetryAfterMode(a.Mode),
			Max:  p.duration(path+".retryAfter.max", a.Max),
		}
	}
	if b := r.Budget; b != nil {
		out.Budget = &document.Budget{Percent: integer(b.Percent), Burst: integer(b.Burst)}
	}
	return out
}

func (p *parser) duration(path string, d *v1alpha1.Duration) *document.Duration {
	if d == nil {
		return nil
	}
	parsed, err := d.Parse()
	if err != nil {
		p.fault(path, "%v", err)
		return nil
	}
	return &parsed
}

func integer(n *int32) *int {
	if n == nil {
		return nil
	}
	wide := int(*n)
	return &wide
}

func integers[T ~int32](list []T) []int {
	if list == nil {
		return nil
	}
	out := make([]int, 0, len(list))
	for _, n := range list {
		out = append(out, int(n))
	}
	return out
}

// texts keeps nil (absent) and empty (explicitly none) apart.
func texts[T ~string](list []T) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}
