package engine

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// Tracer makes traces of calls. An engine without one pays a nil check. It is
// called from many goroutines at once and must not block.
type Tracer interface {
	// StartCall begins the trace of a call, before its breaker is asked; ctx is
	// the caller's. A nil Trace leaves the call untraced.
	StartCall(ctx context.Context, info CallInfo) Trace
}

// CallInfo says what is called.
type CallInfo struct {
	Adapter string
	// Upstream is the policy's name of what is called; empty where no policy
	// names the host.
	Upstream string
	// Route is the policy's route, else the call site's template, else empty.
	Route  string
	Method string
	// URL of the request; read only. It may hold secrets.
	URL *url.URL
}

// AttemptInfo says what one request is. Hops of a redirect are attempts of one
// call and differ in URL and, after some redirects, in method.
type AttemptInfo struct {
	// Number is 1 for the first request of the call.
	Number int
	Method string
	// URL of the request; read only. It may hold secrets.
	URL *url.URL
}

// Carrier is where a trace writes what is passed on to the peer: the headers or
// metadata of one request. Its methods are those of OpenTelemetry's
// TextMapCarrier.
type Carrier interface {
	Get(key string) string
	Set(key, value string)
	Keys() []string
}

// Trace is the trace of one call. Its methods are called in this order and,
// apart from End, by one goroutine at a time.
type Trace interface {
	// StartAttempt begins a request: it writes into the carrier and returns the
	// context that the request is made with, ctx or a child of it.
	StartAttempt(ctx context.Context, info AttemptInfo, carrier Carrier) context.Context
	// AttemptDone ends it: the headers are there, or there never will be any.
	AttemptDone(AttemptEvent)
	// CallDone is told the result: the headers of the final response, or the
	// error.
	CallDone(CallEvent)
	// End is the last, once, after CallDone: the body ended at that time. Where
	// there was none, body says OK and nothing else.
	End(at time.Time, body BodyEvent)
}

// tracing finds out when a trace is over: both the result is known and the body
// of its response ended. A redirect that nobody follows has them in the other
// order, with a body that ended long before the call is given up waiting for.
type tracing struct {
	trace Trace

	mu      sync.Mutex
	settled bool
	body    BodyEvent
	// bodyEnd is zero while the body of the newest response is open.
	bodyEnd time.Time
	ended   bool
}

// Trace begins the trace of a call. An adapter that traces calls it right before
// Begin; p is the policy that Begin will be given.
func (c *Call) Trace(ctx context.Context, t Tracer, p *Policy, info CallInfo) {
	info.Upstream, info.Route = p.Upstream, p.Route
	if info.Route == "" {
		info.Route = CallOptionsFrom(ctx).Route
	}
	if trace := t.StartCall(ctx, info); trace != nil {
		c.tracing = &tracing{trace: trace}
	}
}

// Traced reports whether the call has a trace.
func (c *Call) Traced() bool { return c.tracing != nil }

// TraceAttempt begins the trace of the attempt that was counted last. The
// carrier must belong to this attempt alone.
func (c *Call) TraceAttempt(ctx context.Context, info AttemptInfo, carrier Carrier) context.Context {
	t := c.tracing
	t.mu.Lock()
	t.bodyEnd = time.Time{}
	t.mu.Unlock()
	info.Number = int(c.sent)
	return t.trace.StartAttempt(ctx, info, carrier)
}

func (t *tracing) callDone(e CallEvent, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trace.CallDone(e)
	t.settled = true
	switch {
	case !t.bodyEnd.IsZero():
		t.end(t.bodyEnd, t.body)
	case e.Status == NoStatus:
		t.end(now, BodyEvent{OK: true})
	}
}

func (t *tracing) bodyDone(e BodyEvent, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.body, t.bodyEnd = e, now
	if t.settled {
		t.end(now, e)
	}
}

func (t *tracing) end(at time.Time, body BodyEvent) {
	if !t.ended {
		t.ended = true
		t.trace.End(at, body)
	}
}
