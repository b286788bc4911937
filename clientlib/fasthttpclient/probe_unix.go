//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fasthttpclient

import (
	"crypto/tls"
	"net"
	"syscall"
)

// probe looks whether a connection that lay idle can still be used, without
// waiting and without taking anything from it.
type probe struct {
	raw syscall.RawConn
	tls bool
	ask func(fd uintptr) bool
	n   int
	err error
	buf [1]byte
}

// newProbe returns nil where a connection cannot be looked at.
func newProbe(c net.Conn) *probe {
	p := &probe{}
	if t, ok := c.(*tls.Conn); ok {
		c, p.tls = t.NetConn(), true
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	p.raw = raw
	p.ask = func(fd uintptr) bool {
		p.n, _, p.err = syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}
	return p
}

// stale reports whether the peer closed the connection, or sent what nobody asked
// for: the next response would be taken for that. On TLS there may be a session
// ticket to read, so only an end counts.
func (p *probe) stale() bool {
	if p == nil {
		return false
	}
	if err := p.raw.Read(p.ask); err != nil {
		return true
	}
	switch {
	case p.err == syscall.EAGAIN || p.err == syscall.EWOULDBLOCK || p.err == syscall.EINTR:
		return false
	case p.err != nil || p.n == 0:
		return true
	default:
		return !p.tls
	}
}
