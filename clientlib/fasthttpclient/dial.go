package fasthttpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// dialer makes connections the way a fasthttp.HostClient is configured to.
type dialer struct {
	dial         fasthttp.DialFunc
	dialTimeout  fasthttp.DialFuncWithTimeout
	dualStack    bool
	isTLS        bool
	tlsConfig    *tls.Config
	writeTimeout time.Duration
}

// dialSlack is how much longer than a limit its dial may last, so that the limit
// is known by its own name and not by the dialer's.
const dialSlack = 50 * time.Millisecond

// connect dials, within a time where that is not zero, and ends early with ctx.
func (d *dialer) connect(ctx context.Context, addr string, within time.Duration) (net.Conn, error) {
	raw, err := d.await(ctx, addr, within)
	if err != nil {
		return nil, err
	}
	// As in fasthttp, a connection with a handshake of its own is TLS already.
	if _, ready := raw.(interface{ Handshake() error }); !d.isTLS || ready {
		return raw, nil
	}
	return d.handshake(ctx, raw, addr)
}

var errNoConn = errors.New("fasthttpclient: the dial function returned neither a connection nor an error")

// await waits for a dial in a goroutine of its own, since fasthttp's dialers know
// of no cancellation. One that is given up goes on for as long as its own timeout
// lets it; what it brings then is closed.
func (d *dialer) await(ctx context.Context, addr string, within time.Duration) (net.Conn, error) {
	if ctx.Done() == nil {
		return d.now(addr, within)
	}
	done, gone := make(chan dialled, 1), new(atomic.Bool)
	go func() {
		var r dialled
		defer func() {
			r.panicked = recover()
			if gone.Swap(true) {
				r.drop()
				return
			}
			done <- r
		}()
		r.err = errNoConn // of one that does not return
		r.conn, r.err = d.now(addr, within)
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked) //nolint:forbidigo // as if the function had been called here, where it can be recovered from
		}
		return r.conn, r.err
	case <-ctx.Done():
		if gone.Swap(true) {
			r := <-done
			r.drop()
		}
		return nil, context.Cause(ctx)
	}
}

// dialled is what a dial brought. What panicked after its call had gone is dropped as
// its connection is: who would have recovered from it is not there any more.
type dialled struct {
	conn     net.Conn
	err      error
	panicked any
}

func (r *dialled) drop() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// now dials with what the program, or fasthttp, has for it.
func (d *dialer) now(addr string, within time.Duration) (net.Conn, error) {
	var conn net.Conn
	var err error
	switch {
	case d.dialTimeout != nil:
		conn, err = d.dialTimeout(addr, within)
	case d.dial != nil:
		conn, err = d.dial(addr)
	case d.dualStack && within > 0:
		conn, err = fasthttp.DialDualStackTimeout(fasthttp.AddMissingPort(addr, d.isTLS), within)
	case d.dualStack:
		conn, err = fasthttp.DialDualStack(fasthttp.AddMissingPort(addr, d.isTLS))
	case within > 0:
		conn, err = fasthttp.DialTimeout(fasthttp.AddMissingPort(addr, d.isTLS), within)
	default:
		conn, err = fasthttp.Dial(fasthttp.AddMissingPort(addr, d.isTLS))
	}
	if conn == nil && err == nil {
		err = errNoConn
	}
	return conn, err
}

// handshakeError is a TLS handshake that failed.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "tls handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// handshake makes raw a TLS connection, and closes it where that fails.
func (d *dialer) handshake(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	config := d.tlsConfig.Clone()
	if config == nil {
		config = &tls.Config{} //nolint:gosec // fasthttp's default too: what the standard library holds for safe
	}
	if config.ServerName == "" {
		// fasthttp has refused an address without a host before it asked for a dial.
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	if d.writeTimeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, d.writeTimeout, fasthttp.ErrTLSHandshakeTimeout)
		defer cancel()
		ctx = limited
	}
	conn := tls.Client(raw, config)
	err := conn.HandshakeContext(ctx)
	if err == nil {
		return conn, nil
	}
	_ = raw.Close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &handshakeError{err}
}
