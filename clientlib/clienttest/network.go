package clienttest

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Network is an HTTP server on a network in memory. Inside a testing/synctest
// bubble its time is the bubble's, so that seconds cost nothing and every
// duration is exact.
type Network struct {
	listener memListener
	server   *http.Server
	served   sync.WaitGroup

	mu    sync.Mutex
	dials int
}

// NewNetwork starts a server for a handler; close it with Close.
func NewNetwork(h http.Handler) *Network {
	n := &Network{listener: memListener{conns: make(chan net.Conn), done: make(chan struct{})}}
	n.server = &http.Server{Handler: h}
	n.served.Go(func() { _ = n.server.Serve(&n.listener) })
	return n
}

// Transport returns an http.Transport whose connections all lead to the server,
// whatever the host.
func (n *Network) Transport() *http.Transport {
	return &http.Transport{DialContext: n.Dial}
}

// Dial opens a connection to the server.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.listener.conns <- server:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dials++
		return client, nil
	case <-n.listener.done:
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: context.Cause(ctx)}
	}
}

// Dials returns how many connections were opened.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// Close ends the server and all its connections.
func (n *Network) Close() error {
	err := n.server.Close()
	n.served.Wait()
	return err
}

type memListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr{} }

type memAddr struct{}

func (memAddr) Network() string { return "mem" }
func (memAddr) String() string  { return "memory" }
