package policytest

import (
	"slices"
	"strings"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// Events is an engine.Observer that keeps all that it is told, in order. The zero
// value is ready to use; it is safe for concurrent use. What its methods return is
// the caller's.
type Events struct {
	mu        sync.Mutex
	upstreams []string
	adapters  []string
	routes    []string
	started   int
	attempts  []engine.AttemptEvent
	calls     []engine.CallEvent
	bodies    []engine.BodyEvent
	wouldCut  []string
	circuits  []engine.CircuitState
}

// Recorder implements engine.Observer.
func (e *Events) Recorder(upstream, route string) engine.Recorder {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.upstreams = append(e.upstreams, upstream)
	return &recorder{e, route}
}

// Upstreams returns the upstreams for which a recorder was asked.
func (e *Events) Upstreams() []string { return kept(e, &e.upstreams) }

// Adapters returns the adapter of each event that names one.
func (e *Events) Adapters() []string { return kept(e, &e.adapters) }

// Routes returns the route of the policy of each call that started.
func (e *Events) Routes() []string { return kept(e, &e.routes) }

// Attempts returns the attempts.
func (e *Events) Attempts() []engine.AttemptEvent { return kept(e, &e.attempts) }

// Calls returns the calls that were done.
func (e *Events) Calls() []engine.CallEvent { return kept(e, &e.calls) }

// Bodies returns the bodies that were done.
func (e *Events) Bodies() []engine.BodyEvent { return kept(e, &e.bodies) }

// WouldCut returns what would have been done in mode Shadow.
func (e *Events) WouldCut() []string { return kept(e, &e.wouldCut) }

// Circuits returns the states that the circuits entered.
func (e *Events) Circuits() []engine.CircuitState { return kept(e, &e.circuits) }

// Started returns how many calls started.
func (e *Events) Started() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

// Skips returns why attempts were not repeated, with commas in between.
func (e *Events) Skips() string {
	var skips []string
	for _, a := range e.Attempts() {
		if a.Skip != 0 {
			skips = append(skips, a.Skip.String())
		}
	}
	return strings.Join(skips, ",")
}

func kept[T any](e *Events, of *[]T) []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(*of)
}

// recorder is that of one upstream and route.
type recorder struct {
	events *Events
	route  string
}

func (r *recorder) CallStarted(adapter string) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.started++
	r.events.routes = append(r.events.routes, r.route)
	r.events.adapters = append(r.events.adapters, adapter)
}

func (r *recorder) AttemptDone(e engine.AttemptEvent) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.attempts = append(r.events.attempts, e)
	r.events.adapters = append(r.events.adapters, e.Adapter)
}

func (r *recorder) CallDone(e engine.CallEvent) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.calls = append(r.events.calls, e)
	r.events.adapters = append(r.events.adapters, e.Adapter)
}

func (r *recorder) BodyDone(e engine.BodyEvent) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.bodies = append(r.events.bodies, e)
	r.events.adapters = append(r.events.adapters, e.Adapter)
}

func (r *recorder) WouldCut(limit string) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.wouldCut = append(r.events.wouldCut, limit)
}

func (r *recorder) CircuitChanged(s engine.CircuitState) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.circuits = append(r.events.circuits, s)
}
