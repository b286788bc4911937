package clientprom

import (
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// firstTry counts the calls of one kind whose first attempt succeeded, as most do.
// Such a call, and its attempt, count in four series, but once, and its body beside
// it: the series find them here.
type firstTry struct {
	key      tryKey
	inflight *gauge
	bodyTook func(time.Duration) // nil for gRPC, whose replies are no bodies

	sum    callAndBody[atomic.Int64] // nanoseconds
	counts [len(buckets) + 1]callAndBody[atomic.Uint64]
}

// callAndBody are neighbours in memory: another core than the last may count them,
// and has to fetch them first.
type callAndBody[T any] struct{ call, body T }

// tryKey is what tells the kinds apart, as the engine says it.
type tryKey struct {
	adapter, method, route string
	status                 int
}

// isOf compares without making a key, for each call.
func (k *tryKey) isOf(e *engine.FirstTryEvent) bool {
	return k.status == e.Status && k.adapter == e.Adapter && k.method == e.Method && k.route == e.Route
}

func (f *firstTry) addCall(d time.Duration) {
	f.counts[bucketOf(d)].call.Add(1)
	f.sum.call.Add(int64(d))
}

func (f *firstTry) addBody(d time.Duration) {
	f.counts[bucketOf(d)].body.Add(1)
	f.sum.body.Add(int64(d))
}

// addTo implements tributary with the calls.
func (f *firstTry) addTo(r *reading) {
	for i := range f.counts {
		r.counts[i] += f.counts[i].call.Load()
	}
	r.sum += time.Duration(f.sum.call.Load())
}

// bodiesOf is a tributary with the bodies.
type bodiesOf struct{ *firstTry }

func (f bodiesOf) addTo(r *reading) {
	for i := range f.counts {
		r.counts[i] += f.counts[i].body.Load()
	}
	r.sum += time.Duration(f.sum.body.Load())
}

// FirstTry implements engine.FirstTryRecorder.
func (r *recorder) FirstTry(e engine.FirstTryEvent) (bodyTook func(time.Duration)) {
	f := r.usual.Load()
	if f == nil || !f.key.isOf(&e) {
		if f = r.firstTry(tryKey{adapter: e.Adapter, method: e.Method, route: e.Route, status: e.Status}); f == nil {
			r.twoEvents(e)
			return nil
		}
	}
	f.inflight.Add(-1)
	f.addCall(e.Duration)
	return f.bodyTook
}

// twoEvents is what FirstTry stands for.
func (r *recorder) twoEvents(e engine.FirstTryEvent) {
	r.AttemptDone(engine.AttemptEvent{Adapter: e.Adapter, Route: e.Route, Method: e.Method, Status: e.Status, Duration: e.Duration, OK: true})
	r.CallDone(engine.CallEvent{Adapter: e.Adapter, Route: e.Route, Method: e.Method, Status: e.Status, Duration: e.Duration, OK: true, Attempts: 1})
}

// firstTry finds the calls of a kind; nil where there is something in it that has no
// label of its own, which could be anything, and where a recorder that is retired
// has not got all of its series.
func (r *recorder) firstTry(k tryKey) *firstTry {
	if f, ok := r.firstTries.find(k); ok {
		return f
	}
	key := r.callKey(k.adapter, k.route, k.method, k.status, true, 0)
	if key.method == other || int(key.status) != k.status || key.route == unknown && k.route != "" {
		return nil
	}
	inflight, started := r.gauge(key.adapter)
	attempt, tried := r.attemptPair(key)
	call, called := r.callPair(key)
	if !started || !tried || !called {
		return nil
	}
	var body *histogram
	if key.adapter != "grpc" {
		var ok bool
		if body, ok = r.bodyTime(key); !ok {
			return nil
		}
	}
	f, ok := fill(r, &r.firstTries, k, func() *firstTry {
		f := &firstTry{key: k, inflight: inflight}
		attempt.join(f)
		call.join(f)
		if body != nil {
			body.join(bodiesOf{f})
			f.bodyTook = f.addBody
		}
		return f
	})
	if !ok {
		return nil
	}
	r.usual.CompareAndSwap(nil, f)
	return f
}
