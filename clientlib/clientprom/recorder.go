package clientprom

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// recorder counts the calls of one upstream and route. Handles are resolved the
// first time that a combination of labels comes up and found by a map lookup
// without a lock from then on.
type recorder struct {
	client    *client
	key       seriesKey
	templates *templates
	holders   int // guarded by the metrics' lock

	// usual is the first of firstTries. What every call counts in is found there,
	// with few looks into memory.
	usual      atomic.Pointer[firstTry]
	firstTries table[tryKey, *firstTry]
	inflight   table[string, *gauge] // by adapter
	calls      table[callKey, pair]
	attempts   table[callKey, pair]
	bodies     table[callKey, *histogram]        // status left out
	cuts       table[string, prometheus.Counter] // by limit
	skips      [failure.SkipReasons]prometheus.Counter
	refused    [len(sources)]prometheus.Counter // by failure.Source

	mu      sync.Mutex
	retired bool
}

// sources are those whose limit can refuse a call.
var sources = [...]failure.Source{failure.SourcePolicy, failure.SourceBudget, failure.SourceCaller}

// pair is the count and the time of calls or attempts.
type pair struct {
	count *counter
	time  *histogram
}

func (p pair) observe(d time.Duration) {
	p.count.Add(1)
	p.time.observe(d)
}

// join has the calls that t counts count here too.
func (p pair) join(t tributary) {
	p.count.join(t)
	p.time.join(t)
}

type callKey struct {
	adapter, route, method string
	status                 int16
	outcome                uint8
}

func newRecorder(c *client, key seriesKey, t *templates) *recorder {
	r := &recorder{client: c, key: key, templates: t}
	for reason := range r.skips {
		if label := failure.SkipReason(reason).String(); label != "" {
			r.skips[reason] = c.metrics.skipped.WithLabelValues(c.name, key.upstream, label)
		}
	}
	for i, s := range sources {
		r.refused[i] = c.metrics.refused.WithLabelValues(c.name, key.upstream, s.String())
	}
	return r
}

// CallStarted implements engine.Recorder.
func (r *recorder) CallStarted(adapter string) {
	if f := r.usual.Load(); f != nil && f.key.adapter == adapter {
		f.inflight.Add(1)
		return
	}
	if g, ok := r.gauge(adapter); ok {
		g.Add(1)
	}
}

// CallDone implements engine.Recorder.
func (r *recorder) CallDone(e engine.CallEvent) {
	if g, ok := r.gauge(e.Adapter); ok {
		g.Add(-1)
	}
	if e.Attempts == 0 && e.Kind == failure.TotalTimeout {
		if i := slices.Index(sources[:], e.Source); i >= 0 {
			r.refused[i].Inc()
		}
	}
	key := r.callKey(e.Adapter, e.Route, e.Method, e.Status, e.OK, e.Kind)
	if p, ok := r.callPair(key); ok {
		p.observe(e.Duration)
	}
}

func (r *recorder) callPair(key callKey) (pair, bool) {
	p, ok := r.calls.find(key)
	if !ok {
		m := r.client.metrics
		p, ok = fill(r, &r.calls, key, func() pair { return r.pair(key, m.requests, m.requestTime) })
	}
	return p, ok
}

// AttemptDone implements engine.Recorder.
func (r *recorder) AttemptDone(e engine.AttemptEvent) {
	key := r.callKey(e.Adapter, e.Route, e.Method, e.Status, e.OK, e.Kind)
	if p, ok := r.attemptPair(key); ok {
		p.observe(e.Duration)
	}
	if skip := r.skips[e.Skip]; skip != nil {
		skip.Inc()
	}
}

func (r *recorder) attemptPair(key callKey) (pair, bool) {
	p, ok := r.attempts.find(key)
	if !ok {
		m := r.client.metrics
		p, ok = fill(r, &r.attempts, key, func() pair { return r.pair(key, m.attempts, m.tryTime) })
	}
	return p, ok
}

// BodyDone implements engine.Recorder.
func (r *recorder) BodyDone(e engine.BodyEvent) {
	key := r.callKey(e.Adapter, e.Route, e.Method, e.Status, e.OK, e.Kind)
	if h, ok := r.bodyTime(key); ok {
		h.observe(e.Duration)
	}
}

// bodyTime finds the histogram of bodies, which are not told apart by status.
func (r *recorder) bodyTime(key callKey) (*histogram, bool) {
	key.status = engine.NoStatus
	h, ok := r.bodies.find(key)
	if !ok {
		h, ok = fill(r, &r.bodies, key, func() *histogram { return r.histogram(key, r.client.metrics.bodyTime) })
	}
	return h, ok
}

// WouldCut implements engine.Recorder. The limits are the engine's own words.
func (r *recorder) WouldCut(limit string) {
	c, ok := r.cuts.find(limit)
	if !ok {
		c, ok = fill(r, &r.cuts, limit, func() prometheus.Counter {
			return r.client.metrics.wouldCut.WithLabelValues(r.client.name, r.key.upstream, limit)
		})
	}
	if ok {
		c.Inc()
	}
}

// CircuitChanged implements engine.Recorder. The state is asked for when metrics
// are collected.
func (r *recorder) CircuitChanged(engine.CircuitState) {}

func (r *recorder) gauge(adapter string) (*gauge, bool) {
	g, ok := r.inflight.find(adapter)
	if !ok {
		g, ok = fill(r, &r.inflight, adapter, func() *gauge {
			return r.client.metrics.inflight.with(r.client.name, adapter, r.key.upstream)
		})
	}
	return g, ok
}

func (r *recorder) callKey(adapter, route, verb string, code int, ok bool, kind failure.Kind) callKey {
	if r.key.route != "" {
		route = r.key.route
	} else {
		route = r.templates.admit(route)
	}
	return callKey{
		adapter: adapter,
		route:   route,
		method:  method(verb),
		status:  status(code, adapter == "grpc"),
		outcome: outcome(ok, kind),
	}
}

func (r *recorder) pair(k callKey, counts vector[*counter], times vector[*histogram]) pair {
	return pair{
		count: counts.with(r.client.name, k.adapter, r.key.upstream, k.route, k.method, statusLabel(k.status), outcomeLabel(k.outcome)),
		time:  r.histogram(k, times),
	}
}

func (r *recorder) histogram(k callKey, times vector[*histogram]) *histogram {
	return times.with(r.client.name, k.adapter, r.key.upstream, k.route, k.method, outcomeLabel(k.outcome))
}

// retire deletes the series of the recorder, and those of the whole upstream
// when it was the last one. Calls in flight count into handles that nobody
// collects any more.
func (r *recorder) retire(last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = true
	m := r.client.metrics
	labels := prometheus.Labels{"client": r.client.name, "upstream": r.key.upstream}
	if last {
		m.inflight.DeletePartialMatch(labels)
		m.skipped.DeletePartialMatch(labels)
		m.wouldCut.DeletePartialMatch(labels)
		m.refused.DeletePartialMatch(labels)
	} else if r.key.route != "" {
		labels["route"] = r.key.route
	}
	m.requests.DeletePartialMatch(labels)
	m.attempts.DeletePartialMatch(labels)
	m.requestTime.DeletePartialMatch(labels)
	m.bodyTime.DeletePartialMatch(labels)
	m.tryTime.DeletePartialMatch(labels)
}
