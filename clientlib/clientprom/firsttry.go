package clientprom

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// firstTry counts the calls of one kind whose first attempt succeeded, as most do.
// Such a call, and its attempt, count in four series, but once: the series find
// them here.
type firstTry struct {
	tally
	inflight *gauge
	bodyTook func(time.Duration) // nil for gRPC, whose replies are no bodies
}

// tryKey is what tells the kinds apart, as the engine says it.
type tryKey struct {
	adapter, method, route string
	status                 int
}

// FirstTry implements engine.FirstTryRecorder.
func (r *recorder) FirstTry(e engine.FirstTryEvent) (bodyTook func(time.Duration)) {
	key := tryKey{adapter: e.Adapter, method: e.Method, route: e.Route, status: e.Status}
	f, ok := r.firstTries.find(key)
	if !ok {
		if f, ok = r.firstTry(key); !ok {
			r.AttemptDone(engine.AttemptEvent{Adapter: e.Adapter, Route: e.Route, Method: e.Method, Status: e.Status, Duration: e.Duration, OK: true})
			r.CallDone(engine.CallEvent{Adapter: e.Adapter, Route: e.Route, Method: e.Method, Status: e.Status, Duration: e.Duration, OK: true, Attempts: 1})
			return nil
		}
	}
	f.inflight.Add(-1)
	f.observe(e.Duration)
	return f.bodyTook
}

// firstTry finds the series of a kind; false where there is something in it that
// has no label of its own, which could be anything, and where a recorder that is
// retired has not got all of them.
func (r *recorder) firstTry(k tryKey) (*firstTry, bool) {
	key := r.callKey(k.adapter, k.route, k.method, k.status, true, 0)
	if key.method == other || int(key.status) != k.status || key.route == unknown && k.route != "" {
		return nil, false
	}
	inflight, started := r.gauge(key.adapter)
	attempt, tried := r.attemptPair(key)
	call, called := r.callPair(key)
	var bodyTook func(time.Duration)
	if key.adapter != "grpc" {
		body, ok := r.bodyTime(key)
		if !ok {
			return nil, false
		}
		bodyTook = body.observe
	}
	if !started || !tried || !called {
		return nil, false
	}
	return fill(r, &r.firstTries, k, func() *firstTry {
		f := &firstTry{inflight: inflight, bodyTook: bodyTook}
		attempt.join(&f.tally)
		call.join(&f.tally)
		return f
	})
}
