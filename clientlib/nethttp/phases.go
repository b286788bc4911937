package nethttp

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// phaseWatch holds an attempt to timeouts.connect and timeouts.responseHeader.
// It exists only where one of them is set. net/http calls the hooks from
// several goroutines, possibly twice (it repeats requests on its own) and after
// the attempt ended, so all of it is behind a lock and a stopped watch ignores
// them.
type phaseWatch struct {
	attempt *attempt

	mu      sync.Mutex
	timer   clock.Timer
	dialing bool
	replied bool
	stopped bool
}

// watchPhases returns a context whose request is watched. Hooks that the caller
// put into the context go on working.
func (a *attempt) watchPhases(ctx context.Context) context.Context {
	w := &phaseWatch{attempt: a}
	a.phases = w
	p := a.flight.Policy
	trace := &httptrace.ClientTrace{}
	if p.Connect > 0 {
		trace.GetConn = func(string) { w.start(p.Connect, w.connectLimit, false) }
		trace.GotConn = func(httptrace.GotConnInfo) { w.halt() }
		trace.DNSStart = func(httptrace.DNSStartInfo) { w.dialed() }
		trace.ConnectStart = func(string, string) { w.dialed() }
	}
	if p.ResponseHeader > 0 {
		trace.WroteRequest = func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				w.start(p.ResponseHeader, func() engine.Limit { return engine.LimitResponseHeader }, true)
			}
		}
		trace.GotFirstResponseByte = func() { w.reply() }
	}
	return httptrace.WithClientTrace(ctx, trace)
}

// connectLimit tells a slow dial from a wait for somebody else's connection.
func (w *phaseWatch) connectLimit() engine.Limit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dialing {
		return engine.LimitConnect
	}
	return engine.LimitPool
}

func (w *phaseWatch) start(d time.Duration, limit func() engine.Limit, reply bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || reply && w.replied {
		return
	}
	w.dialing, w.replied = false, false
	if w.timer != nil {
		w.timer.Stop()
	}
	a := w.attempt
	w.timer = a.flight.transport.engine.Clock().AfterFunc(d, func() {
		if a.flight.Policy.Shadow {
			a.flight.WouldCut(limit().Label())
			return
		}
		a.Fire(limit())
	})
}

func (w *phaseWatch) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *phaseWatch) dialed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialing = true
}

// reply notes the first byte of the response, which may come before the request
// is written to its end.
func (w *phaseWatch) reply() {
	w.halt()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replied = true
}

// stop ends the watch; a nil watch is none.
func (w *phaseWatch) stop() {
	if w == nil {
		return
	}
	w.halt()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
