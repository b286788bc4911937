package clientprom

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// client is what the metrics know of a client name. Several clients of one name
// in a process share it: their counts add up, and the one whose policy changed
// last is shown. Its fields are guarded by the metrics' lock.
type client struct {
	metrics  *metrics
	name     string
	series   map[seriesKey]*recorder
	names    map[string]*templates // by upstream
	snapshot *engine.Snapshot      // nil before the first swap
	revision string
	state    clientlib.State
	since    time.Time // when revision came into force, zero for none
	// checkedAt tells when the source last made sure that nothing newer is
	// there; nil before the first change.
	checkedAt func() time.Time
}

type seriesKey struct{ upstream, route string }

// client finds or makes the client of a name.
func (m *metrics) client(name string) *client {
	name = strings.ToValidUTF8(name, "\uFFFD")
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.clients[name]
	if !ok {
		c = &client{
			metrics: m,
			name:    name,
			series:  map[seriesKey]*recorder{},
			names:   map[string]*templates{},
			state:   clientlib.StateFallback,
		}
		m.clients[name] = c
		for _, result := range reloadResults {
			m.reloads.WithLabelValues(name, result)
		}
	}
	return c
}

// collect is called with the lock.
func (c *client) collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	revision := c.revision
	if revision == "" {
		revision = none
	}
	gauge(c.metrics.info, 1, c.name, revision, string(c.state))
	if !c.since.IsZero() {
		gauge(c.metrics.age, clock.System().Now().Sub(c.since).Seconds(), c.name)
	}
	if c.checkedAt != nil {
		if at := c.checkedAt(); !at.IsZero() {
			gauge(c.metrics.checkAge, clock.System().Now().Sub(at).Seconds(), c.name)
		}
	}
	if c.snapshot == nil {
		return
	}
	worst := map[string]engine.CircuitState{}
	c.snapshot.Circuits(func(upstream string, s engine.CircuitState) {
		worst[upstream] = max(worst[upstream], s)
	})
	for upstream, s := range worst {
		gauge(c.metrics.circuit, float64(s), c.name, upstream)
	}
}

// hold returns the recorder of an upstream and route, and counts its holder.
func (c *client) hold(key seriesKey) *recorder {
	c.metrics.mu.Lock()
	defer c.metrics.mu.Unlock()
	r, ok := c.series[key]
	if !ok {
		t, ok := c.names[key.upstream]
		if !ok {
			t = &templates{}
			c.names[key.upstream] = t
		}
		r = newRecorder(c, key, t)
		c.series[key] = r
	}
	r.holders++
	return r
}

// release gives a recorder back; the last holder's deletes its series. It is
// called with the lock.
func (c *client) release(r *recorder) {
	r.holders--
	if r.holders > 0 {
		return
	}
	delete(c.series, r.key)
	last := true
	for key := range c.series {
		last = last && key.upstream != r.key.upstream
	}
	r.retire(last)
	if last {
		delete(c.names, r.key.upstream)
	}
}
