package nethttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Each failure of net/http from a server that really fails so. A row makes the
// server and says where to call it; with body set, the failure comes while the
// response is read.
func TestRealFailuresHaveTheirKind(t *testing.T) {
	origin := func(protocol, path string) func(*testing.T) (string, *http.Transport) {
		return func(t *testing.T) (string, *http.Transport) {
			u, base := serve(t, protocol, &clienttest.Origin{})
			return u + path, base
		}
	}
	raw := func(answer string) func(*testing.T) (string, *http.Transport) {
		return func(t *testing.T) (string, *http.Transport) {
			addr := listen(t, func(c net.Conn) {
				readHead(c)
				_, _ = io.WriteString(c, answer)
			})
			return "http://" + addr, &http.Transport{}
		}
	}
	h2 := func(overTLS bool, react func(*clienttest.Stream)) func(*testing.T) (string, *http.Transport) {
		return func(t *testing.T) (string, *http.Transport) {
			return frames(t, overTLS, &clienttest.FrameServer{React: react})
		}
	}
	rows := []struct {
		name  string
		serve func(*testing.T) (string, *http.Transport)
		rules string
		kind  kinds.Kind
		body  bool
		cause error // that errors.Is must still find
	}{
		{"name does not resolve", func(*testing.T) (string, *http.Transport) {
			return "http://nowhere.invalid/", &http.Transport{}
		}, "", kinds.DNSError, false, nil},
		{"connection refused", refused, "", kinds.ConnectError, false, syscall.ECONNREFUSED},
		{"dialler's own timeout", func(*testing.T) (string, *http.Transport) {
			d := &net.Dialer{Timeout: time.Nanosecond}
			return "http://127.0.0.1:9/", &http.Transport{DialContext: d.DialContext}
		}, "", kinds.ConnectTimeout, false, nil},
		{"proxy refuses the connection", func(t *testing.T) (string, *http.Transport) {
			proxy, _ := refused(t)
			u, err := url.Parse(proxy)
			return "http://127.0.0.1/", &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return u, err }}
		}, "", kinds.ConnectError, false, syscall.ECONNREFUSED},

		{"closed instead of an answer", origin("HTTP/1.1", "/reset"), "", kinds.Disconnected, false, io.EOF},
		{"closed instead of an answer, TLS", origin("HTTP/1.1 over TLS", "/reset"), "", kinds.Disconnected, false, io.EOF},
		{"reset instead of an answer", origin("HTTP/1.1", "/rst"), "", kinds.Disconnected, false, syscall.ECONNRESET},
		{"reset instead of an answer, TLS", origin("HTTP/1.1 over TLS", "/rst"), "", kinds.Disconnected, false, syscall.ECONNRESET},
		{"closed within the headers", origin("HTTP/1.1", "/cuthead"), "", kinds.Disconnected, false, io.ErrUnexpectedEOF},
		{"closed within the body", origin("HTTP/1.1", "/cut"), "", kinds.Disconnected, true, io.ErrUnexpectedEOF},
		{"closed within a chunked body", origin("HTTP/1.1", "/abort"), "", kinds.Disconnected, true, io.ErrUnexpectedEOF},
		{"stream reset within the body", origin("HTTP/2", "/abort"), "", kinds.Disconnected, true, nil},
		{"stream reset within the body, TLS", origin("HTTP/2 over TLS", "/abort"), "", kinds.Disconnected, true, nil},
		{"stream cancelled before the headers", h2(false, func(s *clienttest.Stream) { s.Reset(clienttest.H2Cancel) }), "", kinds.Disconnected, false, nil},
		{"HTTP/2 connection closed before the headers", h2(true, func(s *clienttest.Stream) { s.Close() }), "", kinds.Disconnected, false, io.ErrUnexpectedEOF},
		{"HTTP/2 connection closed within the body", h2(false, func(s *clienttest.Stream) { s.Headers(false); s.Data("x", false); s.Close() }), "", kinds.Disconnected, true, nil},
		{"GOAWAY that covers the stream, then closed", h2(false, func(s *clienttest.Stream) { s.GoAway(s.ID, clienttest.H2NoError); s.Close() }), "", kinds.Disconnected, false, nil},

		{"GOAWAY with an error before the stream", h2(true, func(s *clienttest.Stream) { s.GoAway(0, clienttest.H2InternalError) }), "", kinds.Unprocessed, false, nil},

		{"not HTTP", origin("HTTP/1.1", "/garbage"), "", kinds.ProtocolError, false, nil},
		{"malformed status line that quotes a GOAWAY", raw("http2: Transport received Server's graceful shutdown GOAWAY\r\n\r\n"), "", kinds.ProtocolError, false, nil},
		{"malformed status that quotes REFUSED_STREAM", raw("HTTP/1.1 stream error: stream ID 1; REFUSED_STREAM\r\n\r\n"), "", kinds.ProtocolError, false, nil},
		{"malformed header", raw("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), "", kinds.ProtocolError, false, nil},
		{"two lengths", raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), "", kinds.ProtocolError, false, nil},
		{"length that is no number", raw("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), "", kinds.ProtocolError, false, nil},
		{"unknown transfer encoding", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: magic\r\n\r\n"), "", kinds.ProtocolError, false, nil},
		{"malformed chunk", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "", kinds.ProtocolError, true, nil},
		{"headers without end", func(t *testing.T) (string, *http.Transport) {
			u, base := raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")(t)
			base.MaxResponseHeaderBytes = 4096
			return u, base
		}, "", kinds.ProtocolError, false, nil},
		{"HTTP/2 headers that do not decode", h2(false, func(s *clienttest.Stream) { s.BadHeaders() }), "", kinds.ProtocolError, false, nil},
		{"HTTP/2 stream reset for the protocol", h2(false, func(s *clienttest.Stream) { s.Headers(false); s.Reset(clienttest.H2ProtocolError) }), "", kinds.ProtocolError, true, nil},
		{"gzip that is none", raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nthis is text"), "", kinds.BodyError, true, nil},

		{"certificate of nobody we know", func(t *testing.T) (string, *http.Transport) {
			u, _ := serve(t, "HTTP/1.1 over TLS", &clienttest.Origin{})
			return u, &http.Transport{}
		}, "", kinds.TLSError, false, nil},
		{"certificate of another name", func(t *testing.T) (string, *http.Transport) {
			u, base := serve(t, "HTTP/2 over TLS", &clienttest.Origin{})
			base.TLSClientConfig.ServerName = "elsewhere.example"
			return u, base
		}, "", kinds.TLSError, false, nil},
		{"HTTP on a TLS port", func(t *testing.T) (string, *http.Transport) {
			u, _ := serve(t, "HTTP/1.1", &clienttest.Origin{})
			return "https" + strings.TrimPrefix(u, "http"), &http.Transport{}
		}, "", kinds.TLSError, false, http.ErrSchemeMismatch},
		{"no common TLS version", func(t *testing.T) (string, *http.Transport) {
			u, base := serve(t, "HTTP/1.1 over TLS", &clienttest.Origin{})
			base.TLSClientConfig.MaxVersion = tls.VersionTLS11
			return u, base
		}, "", kinds.TLSError, false, nil},

		{"transport's own header timeout", func(t *testing.T) (string, *http.Transport) {
			u, base := serve(t, "HTTP/1.1", &clienttest.Origin{})
			base.ResponseHeaderTimeout = time.Millisecond
			return u + "/hang", base
		}, "", kinds.ReadTimeout, false, nil},
		{"transport's own TLS handshake timeout", func(t *testing.T) (string, *http.Transport) {
			addr := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
			return "https://" + addr, &http.Transport{TLSHandshakeTimeout: time.Millisecond}
		}, "", kinds.ConnectTimeout, false, nil},
		{"connect limit during the TLS handshake", func(t *testing.T) (string, *http.Transport) {
			addr := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
			return "https://" + addr, &http.Transport{MaxConnsPerHost: 3}
		}, `"timeouts":{"connect":"200ms"}`, kinds.ConnectTimeout, false, context.DeadlineExceeded},
		{"attempt limit, HTTP/1.1", origin("HTTP/1.1", "/hang"), `"timeouts":{"attempt":"1ms"}`, kinds.AttemptTimeout, false, context.DeadlineExceeded},
		{"attempt limit, HTTP/2", origin("HTTP/2", "/hang"), `"timeouts":{"attempt":"1ms"}`, kinds.AttemptTimeout, false, context.DeadlineExceeded},
		{"attempt limit within the headers", origin("HTTP/1.1", "/slowheaders?every=1ms&n=1000"), `"timeouts":{"attempt":"5ms"}`, kinds.AttemptTimeout, false, context.DeadlineExceeded},
		{"total, HTTP/2 over TLS", origin("HTTP/2 over TLS", "/hang"), `"timeouts":{"total":"30ms"}`, kinds.TotalTimeout, false, context.DeadlineExceeded},
		{"total within the body, HTTP/1.1", origin("HTTP/1.1", "/drip?every=10s"), `"timeouts":{"total":"50ms"}`, kinds.TotalTimeout, true, context.DeadlineExceeded},
		{"total within the body, HTTP/2", origin("HTTP/2", "/drip?every=10s"), `"timeouts":{"total":"50ms"}`, kinds.TotalTimeout, true, context.DeadlineExceeded},
		{"body idle, HTTP/1.1 over TLS", origin("HTTP/1.1 over TLS", "/drip?every=10s"), `"timeouts":{"bodyIdle":"5ms"}`, kinds.ReadTimeout, true, context.DeadlineExceeded},
		{"body idle, HTTP/2", origin("HTTP/2", "/drip?every=10s"), `"timeouts":{"bodyIdle":"5ms"}`, kinds.ReadTimeout, true, context.DeadlineExceeded},
		{"response header limit, HTTP/2", origin("HTTP/2", "/hang"), `"timeouts":{"responseHeader":"1ms"}`, kinds.ReadTimeout, false, context.DeadlineExceeded},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u, base := row.serve(t)
			host, _ := url.Parse(u)
			var hosts []string
			if h := host.Hostname(); h != "127.0.0.1" {
				hosts = append(hosts, h)
			}
			l := overSockets(t, row.rules, base, hosts...)
			resp, err := l.http.Get(u)
			if row.body {
				if err != nil {
					t.Fatalf("no response: %v", err)
				}
				_, err = readAll(t, resp)
			} else if err == nil {
				_ = resp.Body.Close()
			}
			e := failure(t, err)
			if e.Kind != row.kind {
				t.Errorf("%v is a %v, want %v", err, e.Kind, row.kind)
			}
			if row.cause != nil && !errors.Is(err, row.cause) {
				t.Errorf("%v lost its cause %v", err, row.cause)
			}
			if errors.Is(err, context.Canceled) || e.Timeout() != row.kind.Timeout() {
				t.Errorf("%v: canceled or timeout in the wrong sense", err)
			}
		})
	}
}

// refused returns a URL at which nobody listens.
func refused(t *testing.T) (string, *http.Transport) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	return "http://" + addr, &http.Transport{}
}

// readHead reads a request up to the end of its headers.
func readHead(c net.Conn) {
	var got strings.Builder
	b := make([]byte, 1)
	for !strings.HasSuffix(got.String(), "\r\n\r\n") {
		if _, err := c.Read(b); err != nil {
			return
		}
		got.Write(b)
	}
}

// A POST on a connection that the server had closed meanwhile (golang/go#19943):
// net/http repeats by itself what it did not write; what it wrote is Disconnected
// and not repeated without leave.
func TestAnIdleConnectionClosedByTheServerIsDisconnected(t *testing.T) {
	closeNow := make(chan struct{})
	addr := listen(t, func(c net.Conn) {
		readHead(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		readHead(c) // the second request, which gets no answer
		<-closeNow
	})
	close(closeNow)
	l := overSockets(t, `"retry":{"maxAttempts":2}`, &http.Transport{})
	resp, err := l.http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = readAll(t, resp)
	_, err = l.http.Post("http://"+addr, "text/plain", strings.NewReader("x"))
	if e := failure(t, err); e.Kind != kinds.Disconnected || e.Skip != kinds.SkipMethod || e.Attempts != 1 {
		t.Errorf("%v: kind %v, skip %v, %d attempts", err, e.Kind, e.Skip, e.Attempts)
	}
	for _, leave := range []struct {
		name string
		set  func(*http.Request)
	}{{"Idempotency-Key", func(r *http.Request) { r.Header.Set("Idempotency-Key", "7") }}} {
		req, _ := http.NewRequest(http.MethodPost, "http://"+addr, strings.NewReader("x"))
		leave.set(req)
		resp, err := l.http.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", leave.name, err)
		}
		_, _ = readAll(t, resp)
	}
}

// A peer that says it did nothing lets any method be repeated (golang/go#20985,
// golang/go#39086): by net/http itself where it can, else by us.
func TestUnprocessedRequestsAreRepeatedWhateverTheMethod(t *testing.T) {
	refuse := func(s *clienttest.Stream) { s.Reset(clienttest.H2RefusedStream) }
	goAway := func(s *clienttest.Stream) { s.GoAway(0, clienttest.H2NoError) }
	goAwayError := func(s *clienttest.Stream) { s.GoAway(0, clienttest.H2InternalError) }
	for _, c := range []struct {
		name    string
		overTLS bool
		refuse  func(*clienttest.Stream)
	}{
		{"REFUSED_STREAM", false, refuse}, {"REFUSED_STREAM over TLS", true, refuse},
		{"GOAWAY", false, goAway}, {"GOAWAY over TLS", true, goAway},
		{"GOAWAY with an error", false, goAwayError},
	} {
		for _, body := range []struct {
			name string
			make func() io.Reader
		}{
			{"with GetBody", func() io.Reader { return strings.NewReader("payload") }},
			{"without GetBody", func() io.Reader { return struct{ io.Reader }{strings.NewReader("payload")} }},
		} {
			t.Run(c.name+" "+body.name, func(t *testing.T) {
				f := &clienttest.FrameServer{React: func(s *clienttest.Stream) {
					if s.Number == 1 {
						c.refuse(s)
						return
					}
					s.Headers(false)
					s.Data("done", true)
				}}
				u, base := frames(t, c.overTLS, f)
				l := overSockets(t, `"retry":{"maxAttempts":2}`, base)
				resp, err := l.http.Post(u, "text/plain", body.make())
				if err != nil {
					t.Fatal(err)
				}
				if text, err := readAll(t, resp); text != "done" || err != nil || f.Requests() != 2 {
					t.Errorf("%q, %v after %d requests", text, err, f.Requests())
				}
			})
		}
	}
}

// net/http repeats a refused stream by itself, as long as it can. Where it cannot,
// and nobody asked for a copy of the body, the caller hears that nothing was done.
func TestARefusedStreamThatCannotBeRepeatedSaysSo(t *testing.T) {
	f := &clienttest.FrameServer{React: func(s *clienttest.Stream) { s.Reset(clienttest.H2RefusedStream) }}
	u, base := frames(t, false, f)
	l := overSockets(t, "", base)
	_, err := l.http.Post(u, "text/plain", struct{ io.Reader }{strings.NewReader("payload")})
	if e := failure(t, err); e.Kind != kinds.Unprocessed {
		t.Errorf("%v is a %v", err, e.Kind)
	}
}

func TestAWaitForAnotherCallsConnectionIsAPoolTimeout(t *testing.T) {
	u, base := serve(t, "HTTP/1.1", &clienttest.Origin{})
	base.MaxConnsPerHost = 1
	l := overSockets(t, `"timeouts":{"connect":"20ms"}`, base)
	resp, err := l.http.Get(u + "/drip?every=10s") // holds the only connection
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, err = l.http.Get(u + "/ok")
	if e := failure(t, err); e.Kind != kinds.PoolTimeout || e.Field != "timeouts.connect" || !e.Timeout() {
		t.Errorf("%v is a %v by %s", err, e.Kind, e.Field)
	}
}
