package fasthttpclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// exchange is one request and its response on one connection, by fasthttp's own
// means. It does what fasthttp's transport does, in steps that can be told apart.
type exchange struct {
	interrupter

	host *host
	hc   *fasthttp.HostClient
	conn *conn
	br   *bufio.Reader
	// deadline of reads and writes, beside what fasthttp is configured with; zero
	// for none.
	deadline time.Time
	slot     bool
	// closing says that the connection must not be kept.
	closing bool
}

// watcher is told when an exchange has to wait for its connection.
type watcher interface {
	// queued: the wait for a connection that others have.
	queued()
	// dialing: the wait for a new one, which ends what queued began.
	dialing()
}

type unwatched struct{}

func (unwatched) queued()  {}
func (unwatched) dialing() {}

// connect gets a connection that is ready for the request. within bounds a dial,
// zero for what is configured.
func (x *exchange) connect(ctx context.Context, within time.Duration, req *fasthttp.Request, resp *fasthttp.Response, w watcher) error {
	if err := x.host.enter(ctx, x.deadline, w); err != nil {
		return err
	}
	x.slot = true
	if err := x.take(req.ConnectionClose()); err != nil {
		x.release(false)
		return err
	}
	if x.conn.Conn == nil {
		w.dialing()
		raw, err := x.host.dialer.connect(ctx, x.conn.addr, within)
		if err != nil {
			x.release(false)
			return err
		}
		x.conn.Conn, x.conn.probe = raw, newProbe(raw)
	}
	x.hold(x.conn)
	resp.ParseNetConn(x.conn)
	return nil
}

var errForeign = errors.New("fasthttpclient: a connection that was dialled by somebody else; do not change Dial, DialTimeout or Transport of a client in use")

// take gets a connection from fasthttp's pool, or a place for a new one. Those
// that died while they lay idle are dropped, so that no request is lost on them.
func (x *exchange) take(closeAfter bool) error {
	for {
		// fasthttp dials nothing here and is not asked to wait, so no timeout.
		cc, err := x.hc.AcquireConn(0, closeAfter)
		if err != nil {
			return err
		}
		c, ok := cc.Conn().(*conn)
		if !ok {
			x.hc.CloseConn(cc)
			return errForeign
		}
		if c.keep == nil {
			hc := x.hc
			c.keep, c.drop = func() { hc.ReleaseConn(cc) }, func() { hc.CloseConn(cc) }
			c.born = cc.CreatedTime()
		}
		if c.Conn != nil && c.probe.stale() {
			c.drop()
			continue
		}
		x.conn = c
		return nil
	}
}

// write sends the request.
func (x *exchange) write(req *fasthttp.Request) error {
	c := x.conn
	x.change(func() { c.limitWrite(x.sooner(x.hc.WriteTimeout)) })
	aged := x.hc.MaxConnDuration > 0 && time.Since(c.born) > x.hc.MaxConnDuration && !req.ConnectionClose()
	if aged {
		req.SetConnectionClose()
	}
	x.closing = req.ConnectionClose()
	bw := x.hc.AcquireWriter(c)
	err := req.Write(bw)
	if aged {
		req.Header.ResetConnectionClose()
	}
	if err == nil {
		err = bw.Flush()
	}
	x.hc.ReleaseWriter(bw)
	return err
}

// sooner returns the sooner of the deadline and a limit from now, each of which
// may be missing.
func (x *exchange) sooner(limit time.Duration) time.Time {
	if limit <= 0 {
		return x.deadline
	}
	end := now().Add(limit)
	if !x.deadline.IsZero() && x.deadline.Before(end) {
		return x.deadline
	}
	return end
}

// now is what connections go by, whatever clock the engine has.
func now() time.Time { return time.Now() } //nolint:forbidigo // a connection's deadlines are in the system's time

// maxInterim bounds the informational responses before a response, as fasthttp does.
const maxInterim = 100

var errInterim = errors.New("fasthttpclient: too many 1xx informational responses")

// readHead reads the headers of the response. await, where it is not nil, is
// called before each wait for one, informational ones included.
func (x *exchange) readHead(resp *fasthttp.Response, await func()) error {
	x.change(func() { x.conn.limitRead(x.sooner(x.hc.ReadTimeout)) })
	if x.hc.DisableHeaderNamesNormalizing {
		resp.Header.DisableNormalizing()
	}
	resp.ResetBody()
	x.br = x.hc.AcquireReader(x.conn)
	for range maxInterim + 1 {
		if await != nil {
			await()
		}
		if err := resp.Header.Read(x.br); err != nil {
			return err
		}
		switch status := resp.StatusCode(); {
		case status == fasthttp.StatusSwitchingProtocols:
			x.closing = true // what follows is no HTTP/1.1
			return nil
		case status < 100 || status > 199:
			x.closing = x.closing || resp.ConnectionClose()
			return nil
		}
	}
	return errInterim
}

// bodiless reports whether a response has no body, whatever its headers say
// (RFC 9112, section 6.3).
func bodiless(resp *fasthttp.Response) bool {
	status := resp.StatusCode()
	return resp.SkipBody || status >= 100 && status < 200 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
}

// readBody reads the body, and the trailers after it, into the response.
func (x *exchange) readBody(resp *fasthttp.Response) error {
	return x.readBodyUpTo(resp, x.hc.MaxResponseBodySize)
}

func (x *exchange) readBodyUpTo(resp *fasthttp.Response, limit int) error {
	if bodiless(resp) {
		return nil
	}
	if err := resp.ReadBody(x.br, limit); err != nil {
		return err
	}
	if resp.Header.ContentLength() != chunked {
		return nil
	}
	err := resp.Header.ReadTrailer(x.br)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// What fasthttp says of the length of a body that has none in its headers.
const (
	chunked  = -1
	identity = -2 // until the connection ends
)

// release gives everything back. It is called once, also where connect failed
// after it had a slot. The connection is kept if that makes sense: not one on which
// the peer said more than its response, which would be taken for the next one.
func (x *exchange) release(keep bool) {
	if x.br != nil {
		keep = keep && x.br.Buffered() == 0
		x.hc.ReleaseReader(x.br)
		x.br = nil
	}
	if c := x.conn; c != nil {
		broken := x.letGo() || c.err != nil
		switch {
		case broken:
			c.abort()
			c.drop()
		case !keep || x.closing:
			c.drop()
		default:
			c.rest()
			c.keep()
		}
		x.conn = nil
	}
	if x.slot {
		x.slot = false
		x.host.leave()
	}
}

// plainExchanges are used again: nothing outlives the call of one that is not
// streamed.
var plainExchanges sync.Pool

func plainExchange(h *host, hc *fasthttp.HostClient) *exchange {
	x, ok := plainExchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	x.host, x.hc = h, hc
	return x
}

// recycle is called for a plain exchange that was released.
func (x *exchange) recycle() {
	x.host, x.hc, x.deadline, x.closing = nil, nil, time.Time{}, false
	plainExchanges.Put(x)
}
