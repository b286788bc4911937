package fasthttpclient_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// replying answers each request on a connection with the next of some texts, then
// closes it.
func replying(t testing.TB, texts ...string) string {
	return serve(t, func(conn net.Conn) {
		br := bufio.NewReader(conn)
		for _, text := range texts {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
		}
	})
}

// resetting reads a request and resets the connection after some text.
func resetting(t testing.TB, text string) string {
	return serve(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, text)
		if text != "" {
			// The client has read what there is before the reset overtakes it.
			_, _ = conn.Read(make([]byte, 1))
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
	})
}

func tlsServer(t testing.TB, change func(*tls.Config)) string {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{}
	change(s.TLS)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestRealFailuresAreClassified(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"
	nobody := func(t testing.TB) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return "http://" + l.Addr().String()
	}
	plain := func(addr func(testing.TB) string) func(testing.TB) string {
		return func(t testing.TB) string { return "http://" + addr(t) }
	}
	text := func(s string) func(testing.TB) string {
		return plain(func(t testing.TB) string { return replying(t, s) })
	}
	for name, c := range map[string]struct {
		url  func(testing.TB) string
		base *fasthttp.Client
		kind kinds.Kind
		is   error // of fasthttp's family
		body func(req *fasthttp.Request)
	}{
		"refused":           {url: nobody, kind: kinds.ConnectError},
		"no such name":      {url: func(testing.TB) string { return "http://nowhere.invalid" }, kind: kinds.DNSError},
		"unknown authority": {url: func(t testing.TB) string { return tlsServer(t, func(*tls.Config) {}) }, kind: kinds.TLSError},
		"no common TLS version": {url: func(t testing.TB) string {
			return tlsServer(t, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
		}, base: &fasthttp.Client{TLSConfig: &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}}, kind: kinds.TLSError},
		"TLS to a plain server": {url: func(t testing.TB) string {
			return "https://" + serve(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
		}, kind: kinds.TLSError},
		"TLS cut": {url: func(t testing.TB) string {
			return "https://" + serve(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 8)) })
		}, kind: kinds.ConnectError},
		"TLS silent":            {url: func(t testing.TB) string { return "https://" + silentServer(t) }, base: &fasthttp.Client{WriteTimeout: 50 * time.Millisecond}, kind: kinds.ConnectTimeout, is: fasthttp.ErrTLSHandshakeTimeout},
		"dial timeout":          {url: nobody, base: &fasthttp.Client{Dial: func(string) (net.Conn, error) { return nil, fasthttp.ErrDialTimeout }}, kind: kinds.ConnectTimeout, is: fasthttp.ErrDialTimeout},
		"dial with a net error": {url: nobody, base: &fasthttp.Client{Dial: func(string) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded} }}, kind: kinds.ConnectTimeout},
		"dial of nothing":       {url: nobody, base: &fasthttp.Client{Dial: func(string) (net.Conn, error) { return nil, nil }}, kind: kinds.Unknown},
		"closed without answer": {url: text(""), kind: kinds.Disconnected, is: fasthttp.ErrConnectionClosed},
		"reset without answer":  {url: plain(func(t testing.TB) string { return resetting(t, "") }), kind: kinds.Disconnected},
		"closed in the headers": {url: text("HTTP/1.1 200 OK\r\nContent-Le"), kind: kinds.Disconnected},
		"closed in the body":    {url: text(head + "hello"), kind: kinds.Disconnected, is: io.EOF},
		"read timeout":          {url: plain(silentServer), base: &fasthttp.Client{ReadTimeout: 50 * time.Millisecond}, kind: kinds.ReadTimeout, is: fasthttp.ErrTimeout},
		"read timeout in body": {url: plain(func(t testing.TB) string {
			return serve(t, func(c net.Conn) { _, _ = io.WriteString(c, head); _, _ = io.Copy(io.Discard, c) })
		}), base: &fasthttp.Client{ReadTimeout: 50 * time.Millisecond}, kind: kinds.ReadTimeout, is: fasthttp.ErrTimeout},
		"write timeout":          {url: plain(func(t testing.TB) string { return serve(t, func(c net.Conn) { <-t.Context().Done() }) }), base: &fasthttp.Client{WriteTimeout: 50 * time.Millisecond}, kind: kinds.WriteTimeout, is: fasthttp.ErrTimeout, body: func(req *fasthttp.Request) { req.SetBodyRaw(make([]byte, 32<<20)) }},
		"no HTTP":                {url: text("this is not HTTP\r\n\r\n"), kind: kinds.ProtocolError},
		"words of a peer":        {url: text("timeout: EOF connection reset by peer\r\n\r\n"), kind: kinds.ProtocolError},
		"headers beyond measure": {url: text("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<16) + "\r\n\r\n"), kind: kinds.ProtocolError},
		"interim without end":    {url: text(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 200)), kind: kinds.ProtocolError},
		"malformed chunk":        {url: text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), kind: kinds.ProtocolError},
		"body beyond the limit":  {url: text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), base: &fasthttp.Client{MaxResponseBodySize: 4}, kind: kinds.BodyError, is: fasthttp.ErrBodyTooLarge},
		"two lengths":            {url: text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello"), kind: kinds.ProtocolError},
		"a negative length":      {url: text("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"), kind: kinds.ProtocolError},
		"a chunk beyond numbers": {url: text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello"), kind: kinds.ProtocolError},
		"a terabyte announced":   {url: text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000\r\nhello"), base: &fasthttp.Client{MaxResponseBodySize: 1 << 20}, kind: kinds.BodyError, is: fasthttp.ErrBodyTooLarge},
		"closed in the trailers": {url: text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum"), kind: kinds.Disconnected},
		"request body unread": {url: plain(silentServer), kind: kinds.BodyError, is: errBody, body: func(req *fasthttp.Request) {
			req.SetBodyStream(readerFunc(func([]byte) (int, error) { return 0, errBody }), -1)
		}},
		"request body too short": {url: plain(silentServer), kind: kinds.BodyError, body: func(req *fasthttp.Request) { req.SetBodyStream(strings.NewReader("x"), 5) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, rules(t, `"timeouts":{"total":"20s"}`, "127.0.0.1", "nowhere.invalid"), c.base)
			x := request("PUT", c.url(t))
			if c.body == nil {
				x.Request.Header.SetMethod("GET")
			} else {
				c.body(x.Request)
			}
			e := b.failed(b.do(t.Context(), x))
			if e.Kind != c.kind || e.Attempts != 1 {
				t.Errorf("%v after %d attempts, want %v: %v", e.Kind, e.Attempts, c.kind, x.err)
			}
			if c.is != nil && !errors.Is(x.err, c.is) {
				t.Errorf("%v is no %v", x.err, c.is)
			}
			if n := b.client.Fasthttp().ConnsCount(); n != 0 {
				t.Errorf("%d connections are left in use", n)
			}
		})
	}
}

var errBody = errors.New("the test's body cannot be read")

func TestErrorsOfDrainedPoolsAreFasthttps(t *testing.T) {
	t.Parallel()
	b := newBench(t, rules(t, `"timeouts":{"total":"20s"}`, "127.0.0.1"), &fasthttp.Client{MaxConnsPerHost: 1, StreamResponseBody: true})
	url := "http://" + replying(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	holder := b.do(t.Context(), request("GET", url))
	if holder.err != nil {
		t.Fatal(holder.err)
	}
	x := b.do(t.Context(), request("GET", url))
	e := b.failed(x)
	if e.Kind != kinds.PoolTimeout || !errors.Is(x.err, fasthttp.ErrNoFreeConns) || !errors.Is(x.err, fasthttp.ErrTimeout) {
		t.Errorf("%v", x.err)
	}
	if text, err := b.body(holder); text != "hello" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if text, err := b.body(b.do(t.Context(), request("GET", url))); text != "ok" || err != nil {
		t.Errorf("after the connection came back: %q, %v", text, err)
	}
}

// A server closes a connection that lies idle, or says something nobody asked for
// on it. The next request is not lost on it and does not read that (T33).
func TestAKeptConnectionIsLookedAtBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
	for name, afterwards := range map[string]string{"closed": "", "unasked": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan struct{}, 8)
			addr := serve(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				if afterwards == "" {
					_ = conn.Close()
				} else {
					_, _ = io.WriteString(conn, afterwards)
				}
				said <- struct{}{}
				_, _ = io.Copy(io.Discard, conn)
			})
			b := newBench(t, rules(t, `"timeouts":{"total":"20s"}`, "127.0.0.1"), nil)
			for range 4 {
				b.ok(b.do(t.Context(), request("POST", "http://"+addr, "x")), "first")
				<-said
				// On loopback what was sent is there once the send returned.
			}
		})
	}
}

// T34: where a policy says nothing of retries there are none, whatever the method
// and whatever the program's own client says.
func TestNothingIsRepeatedUnasked(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	addr := serve(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			requests.Add(1)
		}
	})
	b := newBench(t, rules(t, `"timeouts":{"total":"20s"}`, "127.0.0.1"), &fasthttp.Client{
		MaxIdemponentCallAttempts: 7,
		RetryIfErr:                func(*fasthttp.Request, int, error) (bool, bool) { return true, true },
	})
	for i, method := range []string{"GET", "PUT", "POST"} {
		e := b.failed(b.do(t.Context(), request(method, "http://"+addr)))
		if e.Kind != kinds.Disconnected || e.Attempts != 1 || requests.Load() != int32(i+1) {
			t.Errorf("%s: %v after %d requests in all, want %d", method, e, requests.Load(), i+1)
		}
	}
}

// T35: the connection of a call that timed out is closed, so that its server need
// not go on.
func TestTheServerSeesThatItsClientLeft(t *testing.T) {
	t.Parallel()
	left := make(chan error, 1)
	addr := serve(t, func(conn net.Conn) {
		br := bufio.NewReader(conn)
		_, _ = http.ReadRequest(br)
		_, err := br.ReadByte()
		left <- err
	})
	b := newBench(t, rules(t, `"timeouts":{"attempt":"50ms"}`, "127.0.0.1"), nil)
	if e := b.failed(b.do(t.Context(), request("GET", "http://"+addr))); e.Kind != kinds.AttemptTimeout {
		t.Error(e)
	}
	if err := <-left; err == nil {
		t.Error("the server read more in place of the end")
	}
}
