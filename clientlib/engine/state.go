package engine

import "time"

// State is what an upstream keeps over a reload: its circuit breaker and its
// retry budget. It is safe for concurrent use; the zero value is fresh.
type State struct {
	budget  retryBudget
	breaker breaker
}

// admit is breaker.admit, without a look at the limits in the usual case.
func (s *State) admit(p *Policy, now time.Time) (admission, time.Duration, bool) {
	if a, ok := s.breaker.pass(); ok {
		return a, 0, true
	}
	return s.breaker.admit(p.breaker, now)
}

// Circuit returns the state of the upstream's circuit breaker.
func (s *State) Circuit() CircuitState { return s.breaker.current() }
