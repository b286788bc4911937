package fasthttpclient

import (
	"context"
	"net"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/valyala/fasthttp"
)

// host is the transport of one fasthttp.HostClient: it makes the calls to one
// host and port.
type host struct {
	engine *engine.Engine
	// name and port are what policies name; an empty name is none of theirs.
	name string
	port uint16

	dialer dialer
	// slots bounds the connections in use where callers wait for one; nil where
	// they do not. Waiting here can be interrupted, fasthttp's own cannot.
	slots chan struct{}
	wait  time.Duration
}

// newHost is called before the program configures hc, whose address is still the
// host and port of the URLs.
func newHost(e *engine.Engine, hc *fasthttp.HostClient) *host {
	h := &host{engine: e}
	if name, port, err := document.SplitHostPort(hc.Addr); err == nil {
		h.name, h.port = name, port
	}
	return h
}

// takeOver puts the host between hc and its connections. It is called once, when
// everything else about hc is configured.
func (h *host) takeOver(hc *fasthttp.HostClient) error {
	if hc.Transport != nil {
		return errTransport
	}
	hc.Transport = h
	h.dialer = dialer{
		dial:         hc.Dial,
		dialTimeout:  hc.DialTimeout,
		dualStack:    hc.DialDualStack,
		isTLS:        hc.IsTLS,
		tlsConfig:    hc.TLSConfig,
		writeTimeout: hc.WriteTimeout,
	}
	hc.Dial = nil
	hc.DialTimeout = func(addr string, _ time.Duration) (net.Conn, error) { return newConn(addr), nil }
	if hc.MaxConnWaitTimeout > 0 {
		conns := hc.MaxConns
		if conns <= 0 {
			conns = fasthttp.DefaultMaxConnsPerHost
		}
		h.slots, h.wait = make(chan struct{}, conns), hc.MaxConnWaitTimeout
		hc.MaxConnWaitTimeout = 0
	}
	return nil
}

// enter waits for a slot until a deadline, zero for none; w is told where there is
// none at once.
func (h *host) enter(ctx context.Context, deadline time.Time, w watcher) error {
	if h.slots == nil {
		return nil
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	w.queued()
	wait, late := h.wait, error(fasthttp.ErrNoFreeConns)
	if left := time.Until(deadline); !deadline.IsZero() && left < wait {
		wait, late = left, fasthttp.ErrTimeout
	}
	timer := h.engine.Clock().NewTimer(wait)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-timer.C():
		return late
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the slot of enter back.
func (h *host) leave() {
	if h.slots != nil {
		<-h.slots
	}
}

// budgetOnly is the policy of a host that no policy names, where the caller, a
// budget or a trace has something to say all the same.
var budgetOnly = &engine.Policy{MaxAttempts: 1}

// RoundTrip makes one logical call, or one hop of it where DoRedirects follows a
// redirect. retry says that fasthttp may repeat the request by its own rules.
func (h *host) RoundTrip(hc *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	who := callerOf(req)
	resp.SkipBody = resp.SkipBody || req.Header.IsHead()
	if f := who.underWay(); f != nil {
		f.next(h.lookup(f.snapshot, req))
		return f.run(h, hc, req, resp)
	}
	snapshot := h.engine.Snapshot()
	policy := h.lookup(snapshot, req)
	if policy == nil {
		if who.ctx.Done() == nil && !h.engine.Limited(who.ctx) && h.engine.Tracer() == nil {
			return h.plain(hc, req, resp)
		}
		policy = budgetOnly
	}
	f := &flight{engine: h.engine, snapshot: snapshot, ctx: who.ctx, follows: who.follows}
	if err := f.begin(policy, req); err != nil {
		return false, err
	}
	if who.follows {
		who.flight = f
	}
	return f.run(h, hc, req, resp)
}

func (h *host) lookup(s *engine.Snapshot, req *fasthttp.Request) *engine.Policy {
	if h.name == "" {
		return nil
	}
	found, ok := s.Host(h.name, h.port)
	if !ok {
		return nil
	}
	if p := found.Only(); p != nil {
		return p
	}
	return found.Policy(document.Call{Method: method(req), Path: path(req)})
}

var methods = [...]string{
	fasthttp.MethodGet, fasthttp.MethodPost, fasthttp.MethodPut,
	fasthttp.MethodDelete, fasthttp.MethodHead, fasthttp.MethodPatch,
}

// method spares the usual methods an allocation.
func method(req *fasthttp.Request) string {
	m := req.Header.Method()
	for _, known := range methods {
		if string(m) == known {
			return known
		}
	}
	return string(m)
}

// path returns the path as it is sent, escaped and without the query.
func path(req *fasthttp.Request) string {
	uri := req.URI().RequestURI()
	for i, b := range uri {
		if b == '?' || b == '#' {
			return string(uri[:i])
		}
	}
	return string(uri)
}

// plain is a call that nothing limits but fasthttp's own means: what its
// transport does, on connections of ours.
func (h *host) plain(hc *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	x := plainExchange(h, hc)
	if d := req.GetTimeOut(); d > 0 {
		x.deadline = now().Add(d)
	}
	returned := false
	defer func() {
		if !returned {
			x.release(false) // something of the program's panicked
		}
	}()
	retry, err = x.plain(req, resp)
	returned = true
	if x.conn == nil {
		x.recycle() // else it belongs to a stream
	}
	return retry, err
}

func (x *exchange) plain(req *fasthttp.Request, resp *fasthttp.Response) (retry bool, err error) {
	if err := x.connect(context.Background(), req.GetTimeOut(), req, resp, unwatched{}); err != nil {
		return false, err
	}
	if err := x.write(req); err != nil {
		x.release(false)
		return true, timeoutOf(err)
	}
	if err = x.readHead(resp, nil); err != nil {
		x.release(false)
		return true, err
	}
	if resp.StreamBody && !bodiless(resp) {
		newStream(x, resp, nil)
		return false, nil
	}
	err = x.readBody(resp)
	x.release(err == nil)
	return err != nil && err != fasthttp.ErrBodyTooLarge, err
}

// timeoutOf makes a timeout what fasthttp makes of it.
func timeoutOf(err error) error {
	if isTimeout(err) {
		return fasthttp.ErrTimeout
	}
	return err
}
