package nethttp_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// TestMain fails when a test leaves a goroutine, and so a connection, behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// live is a client whose calls go over real sockets.
type live struct {
	http   *http.Client
	client *clientlib.Client
	events *policytest.Events
}

// overSockets makes a client for 127.0.0.1 and the hosts given, on top of base,
// whose idle connections are closed with the test.
func overSockets(t testing.TB, rules string, base *http.Transport, hosts ...string) *live {
	t.Helper()
	l := &live{events: &policytest.Events{}}
	client := policytest.NewClient(t, loopbackRules(t, rules, hosts...), l.events, &clienttest.Timers{})
	l.client = client
	l.http = &http.Client{Transport: nethttp.NewTransport(client, base)}
	t.Cleanup(func() {
		l.http.CloseIdleConnections()
		if err := client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return l
}

func loopbackRules(t testing.TB, rules string, hosts ...string) *document.Document {
	t.Helper()
	return policytest.Rules(t, rules, append([]string{"127.0.0.1"}, hosts...)...)
}

// protocols are the ways in which a server on loopback is spoken to.
var protocols = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2", "HTTP/2 over TLS"}

// serve starts a server and returns its URL and a transport for it.
func serve(t testing.TB, protocol string, h http.Handler) (string, *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	var both http.Protocols
	both.SetHTTP1(strings.HasPrefix(protocol, "HTTP/1.1"))
	both.SetHTTP2(protocol == "HTTP/2 over TLS")
	both.SetUnencryptedHTTP2(protocol == "HTTP/2")
	s.Config.Protocols = &both
	base := &http.Transport{Protocols: &both}
	if strings.HasSuffix(protocol, "TLS") {
		s.EnableHTTP2 = strings.HasPrefix(protocol, "HTTP/2")
		s.StartTLS()
		base.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL, base
}

// listen hands each connection to a function, in a goroutine of its own, and
// closes it when the function returned.
func listen(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

// frames starts a server of frames, in the clear or over TLS, and returns its
// URL and a transport for it.
func frames(t testing.TB, overTLS bool, f *clienttest.FrameServer) (string, *http.Transport) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var only http.Protocols
	base := &http.Transport{Protocols: &only}
	scheme := "http"
	serving := l
	if overTLS {
		only.SetHTTP2(true)
		scheme = "https"
		cert, roots := certificate(t)
		serving = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
		base.TLSClientConfig = roots
	} else {
		only.SetUnencryptedHTTP2(true)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(serving) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-ended; err != nil {
			t.Errorf("server of frames: %v", err)
		}
	})
	return scheme + "://" + l.Addr().String(), base
}

// certificate returns a certificate for 127.0.0.1 and the configuration of a
// client that trusts it.
func certificate(t testing.TB) (tls.Certificate, *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates[0], s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}
