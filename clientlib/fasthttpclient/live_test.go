package fasthttpclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// serve answers each connection on loopback by a function, until the test ends.
func serve(t testing.TB, answer func(conn net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		open  sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			open.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		open.Wait()
	})
	return l.Addr().String()
}

// silentServer accepts connections, reads and says nothing.
func silentServer(t testing.TB) string {
	return serve(t, func(conn net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	})
}

type tlsEcho struct {
	addr         string
	config       *tls.Config // of clients
	serverConfig *tls.Config
	conns        atomic.Int32
}

// newTLSEcho answers with what it was sent, as example.com.
func newTLSEcho(t testing.TB) *tlsEcho {
	e := &tlsEcho{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	e.addr, e.config, e.serverConfig = s.Listener.Addr().String(), &tls.Config{RootCAs: pool}, s.TLS
	return e
}
