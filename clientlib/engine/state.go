package engine

// State is what an upstream keeps over a reload: its circuit breaker and its
// retry budget. It is safe for concurrent use; the zero value is fresh.
type State struct {
	budget  retryBudget
	breaker breaker
}

// Circuit returns the state of the upstream's circuit breaker.
func (s *State) Circuit() CircuitState { return s.breaker.current() }
