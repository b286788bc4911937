package engine

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Comparison is for mode Shadow, in which nothing is armed: when a phase of an
// attempt is over, what it took is compared with what it would have been allowed.
// A limit is counted once. The zero value is ready to use, by one goroutine at a
// time.
type Comparison struct{ total, idle bool }

// Headers compares the wait for the headers, or for an error, of an attempt that
// began at that time.
func (c *Comparison) Headers(s *Scope, began time.Time) {
	now := s.call.Now()
	if p := s.policy; p.Attempt > 0 && now.Sub(began) > p.Attempt {
		s.call.WouldCut(LimitAttempt.Label())
	}
	c.totalAt(s, now)
}

// Body compares a call whose body ended with the total, where that covers the body;
// stream says what it does in [Scope.EnterBody].
func (c *Comparison) Body(s *Scope, stream bool) {
	if p := s.policy; p.Scope != document.ScopeHeaders && !(stream && p.Scope == "") {
		c.Total(s)
	}
}

// Total compares the call up to now with its total.
func (c *Comparison) Total(s *Scope) {
	if s.policy.Total > 0 && !c.total {
		c.totalAt(s, s.call.Now())
	}
}

func (c *Comparison) totalAt(s *Scope, now time.Time) {
	if p := s.policy; p.Total > 0 && !c.total && now.Sub(s.call.Start()) > p.Total {
		c.total = true
		s.call.WouldCut(LimitTotal.Label())
	}
}

// BeginRead is the scope's, and returns when the wait for the next part of a body
// begins; zero where its length is compared with nothing.
func (c *Comparison) BeginRead(s *Scope) time.Time {
	s.BeginRead()
	if p := s.policy; p.Shadow && p.BodyIdle > 0 && !c.idle {
		return s.call.Now()
	}
	return time.Time{}
}

// EndRead is the scope's, and compares the wait that BeginRead told the beginning
// of.
func (c *Comparison) EndRead(s *Scope, began time.Time) {
	s.EndRead()
	if began.IsZero() || c.idle {
		return
	}
	if s.call.Now().Sub(began) > s.policy.BodyIdle {
		c.idle = true
		s.call.WouldCut(LimitBodyIdle.Label())
	}
}
