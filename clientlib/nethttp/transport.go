package nethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// adapterName is the metric label and the name in reports.
const adapterName = "nethttp"

// Transport is an http.RoundTripper that makes each call under the policy in
// force. It is safe for concurrent use, never changes the request it is given,
// and closes the request's body in every case.
type Transport struct {
	engine *engine.Engine
	base   http.RoundTripper
	waits  bool // base is known to wait for the context of a request
	outer  *outerTimeout
}

// New returns a Transport on an engine. Programs use [NewTransport]; this is
// for tools that have an engine and no client. A nil base means what it means
// there.
func New(e *engine.Engine, base http.RoundTripper) *Transport {
	if base == nil {
		base = defaultBase()
	}
	_, waits := base.(*http.Transport)
	return &Transport{engine: e, base: base, waits: waits}
}

// How long an HTTP/2 connection may be silent before it is asked for a sign of
// life, and how long it has to give one. Without, requests go on to a dead
// connection for as long as TCP takes to notice (golang/go#36026).
const (
	pingAfter  = 10 * time.Second
	pingWithin = 5 * time.Second
)

// defaultBase copies http.DefaultTransport, whatever the program made of it; one
// that is no http.Transport, as in tests, is used as it is.
func defaultBase() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := shared.Clone()
	if own.HTTP2 == nil {
		own.HTTP2 = &http.HTTP2Config{}
	}
	if own.HTTP2.SendPingTimeout == 0 {
		own.HTTP2.SendPingTimeout, own.HTTP2.PingTimeout = pingAfter, pingWithin
	}
	return own
}

// Unwrap returns the RoundTripper underneath.
func (t *Transport) Unwrap() http.RoundTripper { return t.base }

// CloseIdleConnections passes the wish on, for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// budgetOnly is the policy of a host that no policy names, inside a budget, a cap
// or a trace: these hold everywhere.
var budgetOnly = &engine.Policy{MaxAttempts: 1}

// RoundTrip makes one logical call, or one hop of it where http.Client follows
// a redirect. A host that no policy names costs a lookup and nothing else.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil {
		return t.base.RoundTrip(req)
	}
	if req.Response != nil {
		if f := redirected(req); f != nil {
			f.Continue(lookup(f.snapshot, req))
			return f.run(req)
		}
	}
	snapshot := t.engine.Snapshot()
	policy := lookup(snapshot, req)
	if policy == nil {
		if policy = t.unnamed(req.Context()); policy == nil {
			return t.base.RoundTrip(req)
		}
	}
	if t.outer != nil {
		t.outer.check()
	}
	f := &flight{transport: t, snapshot: snapshot}
	if tracer := t.engine.Tracer(); tracer != nil {
		f.trace(req, tracer, policy)
	}
	if err := f.Begin(req.Context(), t.engine, policy, adapterName, req.Method); err != nil {
		closeBody(req)
		return nil, err
	}
	return f.run(req)
}

// unnamed returns the policy of a call to a host that no policy names; nil for none.
func (t *Transport) unnamed(ctx context.Context) *engine.Policy {
	if t.engine.Limited(ctx) || t.engine.Tracer() != nil {
		return budgetOnly
	}
	return nil
}

func lookup(s *engine.Snapshot, req *http.Request) *engine.Policy {
	var port uint16
	switch req.URL.Scheme {
	case "http":
		port = 80
	case "https":
		port = 443
	}
	host, ok := s.Authority(req.URL.Host, port)
	if !ok {
		return nil
	}
	if p := host.Only(); p != nil {
		return p
	}
	return host.Policy(document.Call{Method: req.Method, Path: req.URL.EscapedPath()})
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
