package adaptertest

import (
	"slices"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// recorder keeps everything that observers are told.
type recorder struct {
	mu        sync.Mutex
	started   int
	attempts  []engine.AttemptEvent
	calls     []engine.CallEvent
	bodies    []engine.BodyEvent
	wouldCut  []string
	circuits  []engine.CircuitState
	adapters  map[string]bool
	upstreams map[string]bool
	kinds     map[failure.Kind]bool
}

// Recorder implements engine.Observer.
func (r *recorder) Recorder(upstream, _ string) engine.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.upstreams == nil {
		r.adapters, r.upstreams, r.kinds = map[string]bool{}, map[string]bool{}, map[failure.Kind]bool{}
	}
	r.upstreams[upstream] = true
	return r
}

// CallStarted implements engine.Recorder, as do the following.
func (r *recorder) CallStarted(adapter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	r.adapters[adapter] = true
}

func (r *recorder) AttemptDone(e engine.AttemptEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, e)
	r.note(e.Adapter, e.OK, e.Kind)
}

func (r *recorder) CallDone(e engine.CallEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, e)
	r.note(e.Adapter, e.OK, e.Kind)
}

func (r *recorder) BodyDone(e engine.BodyEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, e)
	r.note(e.Adapter, e.OK, e.Kind)
}

func (r *recorder) WouldCut(limit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wouldCut = append(r.wouldCut, limit)
}

func (r *recorder) CircuitChanged(s engine.CircuitState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.circuits = append(r.circuits, s)
}

// note is called with the lock.
func (r *recorder) note(adapter string, ok bool, kind failure.Kind) {
	r.adapters[adapter] = true
	if !ok {
		r.kinds[kind] = true
	}
}

func (r *recorder) begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

func (r *recorder) done() []engine.CallEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *recorder) bodiesDone() []engine.BodyEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

func (r *recorder) tries() []engine.AttemptEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attempts)
}

func (r *recorder) would() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wouldCut)
}

func (r *recorder) circuit() []engine.CircuitState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.circuits)
}
