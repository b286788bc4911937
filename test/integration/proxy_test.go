package integration

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between an operator and the API server and can cut the line.
type proxy struct {
	target string
	// address stays the same while the line is cut.
	address string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	serving  sync.WaitGroup
}

// newProxy makes one whose line is still cut.
func (c *cluster) newProxy(t *testing.T) *proxy {
	t.Helper()
	host, err := url.Parse(c.admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	target := host.Host
	if target == "" {
		target = c.admin.Host
	}
	p := &proxy{target: target, address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	p.connect(t)
	p.cut()
	t.Cleanup(p.cut)
	return p
}

// connect lets connections through.
func (p *proxy) connect(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	p.serving.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.join(in, out)
		}
	})
}

// join copies both ways until one side ends.
func (p *proxy) join(in, out net.Conn) {
	p.mu.Lock()
	p.conns[in], p.conns[out] = true, true
	p.mu.Unlock()
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		p.serving.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
			p.mu.Lock()
			delete(p.conns, pair[0])
			p.mu.Unlock()
		})
	}
}

// cut closes every connection and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}
