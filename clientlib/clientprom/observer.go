package clientprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// With counts the calls of a client in a registerer's metrics. It may be given
// to any number of clients of a process, with the same registerer or with
// several. clientlib.New fails where something else has registered metrics of
// these names.
func With(r prometheus.Registerer) clientlib.Option {
	return clientlib.WithObserverFor(func(client string) (engine.Observer, error) {
		return newObserver(r, client)
	})
}

func newObserver(r prometheus.Registerer, client string) (engine.Observer, error) {
	m, err := register(r)
	if err != nil {
		return nil, err
	}
	return &observer{client: m.client(client), held: map[seriesKey]*recorder{}}, nil
}

// reloadResults are the changes of the policy that count as reloads.
var reloadResults = []string{"applied", "rejected", "invalid", "recovered"}

// observer is one clientlib.Client. held is used by the engine's swaps only,
// which come one at a time.
type observer struct {
	client *client
	held   map[seriesKey]*recorder
}

// Recorder implements engine.Observer.
func (o *observer) Recorder(upstream, route string) engine.Recorder {
	key := seriesKey{upstream, route}
	if r, ok := o.held[key]; ok {
		return r
	}
	r := o.client.hold(key)
	o.held[key] = r
	return r
}

// Swapped implements engine.SwapObserver: it lets go of what the new snapshot
// does not have.
func (o *observer) Swapped(s *engine.Snapshot) {
	live := map[seriesKey]bool{}
	if s.Document != nil {
		for i := range s.Document.Upstreams {
			u := &s.Document.Upstreams[i]
			live[seriesKey{u.Name, ""}] = true
			for j := range u.Routes {
				live[seriesKey{u.Name, u.Routes[j].Name}] = true
			}
		}
	}
	c := o.client
	c.metrics.mu.Lock()
	defer c.metrics.mu.Unlock()
	c.snapshot = s
	for key, r := range o.held {
		if !live[key] {
			delete(o.held, key)
			c.release(r)
		}
	}
}

// PolicyChanged implements clientlib.PolicyObserver.
func (o *observer) PolicyChanged(change clientlib.PolicyChange) {
	c := o.client
	if slices.Contains(reloadResults, change.Result) {
		c.metrics.reloads.WithLabelValues(c.name, change.Result).Inc()
	}
	c.metrics.mu.Lock()
	defer c.metrics.mu.Unlock()
	c.revision, c.state, c.since = change.Status.Revision, change.Status.State, change.Status.AppliedAt
	c.checkedAt = change.CheckedAt
}
