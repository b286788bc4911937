package nethttp

import (
	"context"
	"net/http"
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

	// bounded says that the connections of the library are, or may be, limited
	// in number, so that one may have to wait for somebody else's.
	bounded bool

	mu      sync.Mutex
	timer   clock.Timer
	dialing bool
	written bool
	replied bool
	stopped bool
}

// watchPhases returns a context whose request is watched. Hooks that the caller
// put into the context go on working.
func (a *attempt) watchPhases(ctx context.Context) context.Context {
	w := &phaseWatch{attempt: a, bounded: true}
	if t, ok := a.flight.transport.base.(*http.Transport); ok {
		w.bounded = t.MaxConnsPerHost > 0
	}
	a.phases = w
	p := a.Rules()
	trace := &httptrace.ClientTrace{}
	if p.Connect > 0 {
		trace.GetConn = func(string) { w.connect() }
		trace.GotConn = func(httptrace.GotConnInfo) { w.halt(); a.tellAgain() }
		trace.DNSStart = func(httptrace.DNSStartInfo) { w.dialed() }
		trace.ConnectStart = func(string, string) { w.dialed() }
		trace.TLSHandshakeStart = w.dialed
	}
	if p.ResponseHeader > 0 {
		trace.WroteRequest = func(info httptrace.WroteRequestInfo) { w.wrote(info.Err) }
		trace.GotFirstResponseByte = w.reply
		trace.Got100Continue = w.proceed
	}
	return httptrace.WithClientTrace(ctx, trace)
}

// connect begins the wait for a connection.
func (w *phaseWatch) connect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialing, w.written, w.replied = false, false, false
	w.start(w.attempt.Rules().Connect, w.connectLimit)
}

// connectLimit tells a slow dial from a wait for somebody else's connection.
func (w *phaseWatch) connectLimit() engine.Limit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bounded && !w.dialing {
		return engine.LimitPool
	}
	return engine.LimitConnect
}

// wrote begins the wait for the response, unless its first byte came before the
// request was written to its end.
func (w *phaseWatch) wrote(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = err == nil
	if w.written && !w.replied {
		w.startReply()
	}
}

// reply notes the first byte of a response.
func (w *phaseWatch) reply() {
	w.halt()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replied = true
}

// proceed notes that the byte belonged to no more than the leave to send the
// body: the response itself is still to come.
func (w *phaseWatch) proceed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replied = false
	if w.written {
		w.startReply()
	}
}

func (w *phaseWatch) startReply() {
	w.start(w.attempt.Rules().ResponseHeader, func() engine.Limit { return engine.LimitResponseHeader })
}

// start is called with the lock.
func (w *phaseWatch) start(d time.Duration, limit func() engine.Limit) {
	if w.stopped {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	a := w.attempt
	w.timer = a.flight.transport.engine.Clock().AfterFunc(d, func() {
		if a.Rules().Shadow {
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
