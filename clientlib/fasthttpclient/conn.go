package fasthttpclient

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// longAgo is a deadline that interrupts whatever waits.
var longAgo = time.Unix(1, 0)

// conn is a connection in fasthttp's pool. fasthttp asks for it without saying for
// which request; it is dialled when that is known ([exchange.connect]), under the
// request's limits. It belongs to one exchange at a time.
type conn struct {
	net.Conn // nil until it is dialled
	addr     string

	// keep and drop give the connection back to fasthttp's pool and take it out.
	// They are set when an exchange first has it.
	keep, drop func()
	born       time.Time
	probe      *probe

	// Of the exchange that has it:
	readLimited, writeLimited bool // a deadline is set
	err                       error
	idle                      idleWatch
}

// idleWatch is told of the waits for a body's next bytes.
type idleWatch interface {
	beginRead() time.Time
	endRead(began time.Time)
}

func newConn(addr string) *conn { return &conn{addr: addr} }

// Handshake tells fasthttp that TLS is not its business here.
func (c *conn) Handshake() error { return nil }

// Close is also called on connections that were never dialled.
func (c *conn) Close() error {
	if c.Conn == nil {
		return nil
	}
	return c.Conn.Close()
}

// abort closes the connection without taking leave: TLS would tell the peer, and
// wait for one that does not read for up to five seconds.
func (c *conn) abort() {
	if t, ok := c.Conn.(*tls.Conn); ok {
		_ = t.NetConn().Close()
	}
}

// Read remembers the first error of the connection, so that it can be told from
// what is wrong with the bytes.
func (c *conn) Read(p []byte) (int, error) {
	if c.idle == nil {
		n, err := c.Conn.Read(p)
		c.failed(err)
		return n, err
	}
	began := c.idle.beginRead()
	n, err := c.Conn.Read(p)
	c.idle.endRead(began)
	c.failed(err)
	return n, err
}

// Write remembers the first error too.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.failed(err)
	return n, err
}

func (c *conn) failed(err error) {
	if err != nil && c.err == nil {
		c.err = err
	}
}

// limitRead and limitWrite set a deadline, zero for none.
func (c *conn) limitRead(t time.Time) {
	if c.readLimited || !t.IsZero() {
		_ = c.SetReadDeadline(t) // an error is that of the next read too
		c.readLimited = !t.IsZero()
	}
}

func (c *conn) limitWrite(t time.Time) {
	if c.writeLimited || !t.IsZero() {
		_ = c.SetWriteDeadline(t)
		c.writeLimited = !t.IsZero()
	}
}

// rest prepares the connection for the pool.
func (c *conn) rest() {
	c.limitRead(time.Time{})
	c.limitWrite(time.Time{})
	c.idle = nil
}

// interrupter ends the input and output of an exchange from outside, whatever it
// is doing, and for good. Once the exchange has let go of its connection, nothing
// reaches that any more.
type interrupter struct {
	mu   sync.Mutex
	done bool
	conn *conn // nil while there is none
}

// interrupt may be called by any goroutine, at any time.
func (i *interrupter) interrupt() {
	i.change(func() { i.done = true })
}

// change does something to the connection's deadlines, over which an interruption
// wins, whenever it came.
func (i *interrupter) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
	if i.done && i.conn != nil {
		_ = i.conn.SetDeadline(longAgo)
	}
}

// hold lets interruptions reach the connection, which may have come before it.
func (i *interrupter) hold(c *conn) { i.change(func() { i.conn = c }) }

// letGo ends that, and reports whether the exchange was interrupted.
func (i *interrupter) letGo() (interrupted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conn = nil
	return i.done
}

func (i *interrupter) interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.done
}
