package fasthttpclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// slowDial dials the bench's network after a while.
func slowDial(b **bench, d time.Duration) fasthttp.DialFunc {
	return func(addr string) (net.Conn, error) {
		<-time.After(d)
		return (*b).network.Dial(context.Background(), "tcp", addr)
	}
}

// T32
func TestConnectLimitsADialThatKnowsNoTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		kind  kinds.Kind
		field string
		ends  time.Duration
	}{
		"connect": {`"timeouts":{"connect":"100ms","attempt":"1s"}`, kinds.ConnectTimeout, "timeouts.connect", 100 * time.Millisecond},
		"attempt": {`"timeouts":{"attempt":"200ms"}`, kinds.AttemptTimeout, "timeouts.attempt", 200 * time.Millisecond},
		"total":   {`"timeouts":{"total":"300ms"}`, kinds.TotalTimeout, "timeouts.total", 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var at *bench
			inFakeTimeWith(t, rules(t, c.rules), &setup{base: fasthttp.Client{Dial: slowDial(&at, 5*time.Second)}}, func(b *bench) {
				at = b
				x := b.get("/ok")
				e := b.failed(x)
				if e.Kind != c.kind || e.Field != c.field || b.elapsed() != c.ends || !errors.Is(x.err, fasthttp.ErrTimeout) {
					b.t.Errorf("%v by %s after %s", e.Kind, e.Field, b.elapsed())
				}
				if c.kind == kinds.ConnectTimeout && !errors.Is(x.err, fasthttp.ErrDialTimeout) {
					b.t.Errorf("%v is no fasthttp.ErrDialTimeout", x.err)
				}
				<-time.After(6 * time.Second)
				synctest.Wait()
				// What the abandoned dial brought was closed, and counts nowhere.
				if n := b.client.Fasthttp().ConnsCount(); n != 0 || b.network.Dials() != 1 {
					b.t.Errorf("%d connections are left of %d", n, b.network.Dials())
				}
			})
		})
	}
}

// A dial gets what is left of the limit, and a little more, so that it is the limit
// that ends the call and gives it its name (T32).
func TestADialIsToldWhatItHas(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		want  time.Duration
	}{
		"connect": {`"timeouts":{"total":"9s","attempt":"3s","connect":"1s"}`, time.Second + 50*time.Millisecond},
		"attempt": {`"timeouts":{"total":"9s","attempt":"3s"}`, 3*time.Second + 50*time.Millisecond},
		"total":   {`"timeouts":{"total":"9s"}`, 9*time.Second + 50*time.Millisecond},
		"nothing": {`"timeouts":{"bodyIdle":"9s"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var told time.Duration
			s := &setup{base: fasthttp.Client{DialTimeout: func(_ string, d time.Duration) (net.Conn, error) {
				told = d
				return nil, errors.New("no")
			}}}
			inFakeTimeWith(t, rules(t, c.rules), s, func(b *bench) {
				if e := b.failed(b.get("/ok")); told != c.want || e.Kind != kinds.Unknown {
					b.t.Errorf("the dial had %s, want %s; %v", told, c.want, e)
				}
			})
		})
	}
}

// T31
func TestTheCallerLeavesADialAtOnce(t *testing.T) {
	var at *bench
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"9s"}`), &setup{base: fasthttp.Client{Dial: slowDial(&at, 5*time.Second)}}, func(b *bench) {
		at = b
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(time.Second, cancel)
		if e := b.failed(b.do(ctx, request("GET", "http://orders/ok"))); e.Kind != kinds.Cancelled || b.elapsed() != time.Second {
			b.t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// pool is a client with one connection, which a first call has for some time.
func inPool(t *testing.T, doc string, wait time.Duration, test func(b *bench)) {
	t.Helper()
	s := &setup{base: fasthttp.Client{MaxConnsPerHost: 1, MaxConnWaitTimeout: wait}}
	inFakeTimeWith(t, rules(t, doc), s, func(b *bench) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.get("/slow?delay=3s")
		}()
		synctest.Wait()
		test(b)
		<-done
	})
}

func TestTheWaitForAConnectionIsLimited(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		wait  time.Duration
		kind  kinds.Kind
		ends  time.Duration
	}{
		"by connect":    {`"timeouts":{"total":"9s","connect":"1s"}`, time.Minute, kinds.PoolTimeout, time.Second},
		"by attempt":    {`"timeouts":{"total":"9s","attempt":"2s"}`, time.Minute, kinds.AttemptTimeout, 2 * time.Second},
		"by the client": {`"timeouts":{"total":"9s"}`, time.Second, kinds.PoolTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inPool(t, c.rules, c.wait, func(b *bench) {
				x := b.get("/ok")
				e := b.failed(x)
				if e.Kind != c.kind || b.elapsed() != c.ends || !errors.Is(x.err, fasthttp.ErrTimeout) {
					b.t.Errorf("%v after %s", e, b.elapsed())
				}
				if pool := e.Kind == kinds.PoolTimeout; pool != errors.Is(x.err, fasthttp.ErrNoFreeConns) {
					b.t.Errorf("%v: a fasthttp.ErrNoFreeConns: %t", x.err, !pool)
				}
			})
		})
	}
}

// T31
func TestTheWaitForAConnectionEndsWithAConnectionOrItsCaller(t *testing.T) {
	inPool(t, `"timeouts":{"total":"9s"}`, time.Minute, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(time.Second, cancel)
		if e := b.failed(b.do(ctx, request("GET", "http://orders/ok"))); e.Kind != kinds.Cancelled || b.elapsed() != time.Second {
			b.t.Errorf("%v after %s", e, b.elapsed())
		}
		b.ok(b.get("/ok"), "ok\n")
		if b.elapsed() != 3*time.Second || b.network.Dials() != 1 {
			b.t.Errorf("after %s on %d connections, want 3s on 1", b.elapsed(), b.network.Dials())
		}
	})
}

func TestShadowCountsASlowConnection(t *testing.T) {
	var at *bench
	s := &setup{base: fasthttp.Client{Dial: slowDial(&at, time.Second)}}
	inFakeTimeWith(t, rules(t, `"mode":"Shadow","timeouts":{"connect":"100ms"}`), s, func(b *bench) {
		at = b
		b.ok(b.get("/ok"), "ok\n")
		if len(b.events.WouldCut()) != 1 || b.events.WouldCut()[0] != "connect" {
			b.t.Errorf("would have cut %q", b.events.WouldCut())
		}
	})
}

func TestTLSIsPartOfConnect(t *testing.T) {
	t.Parallel()
	b := newBench(t, rules(t, `"timeouts":{"total":"20s","connect":"60ms"}`, "127.0.0.1"), nil)
	e := b.failed(b.do(t.Context(), request("GET", "https://"+silentServer(t))))
	if e.Kind != kinds.ConnectTimeout || e.Field != "timeouts.connect" {
		t.Errorf("%v", e)
	}
}

func TestCallsOverTLS(t *testing.T) {
	t.Parallel()
	server := newTLSEcho(t)
	b := newBench(t, rules(t, `"timeouts":{"total":"20s","connect":"10s","bodyIdle":"10s"},`+threeAttempts, "example.com"), &fasthttp.Client{
		TLSConfig: server.config,
		Dial:      func(string) (net.Conn, error) { return net.Dial("tcp", server.addr) },
	})
	for range 3 {
		b.ok(b.do(t.Context(), request("PUT", "https://example.com/", "hello")), "hello")
	}
	if n := server.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestThePeerIsToldWhatTheConnectionLeft(t *testing.T) {
	const doc = `"timeouts":{"total":"1s"},"deadline":{"header":"X-Deadline-Ms","reserve":"200ms"}`
	for name, c := range map[string]struct {
		dial time.Duration
		told string
	}{"some": {500 * time.Millisecond, "300"}, "nothing": {800 * time.Millisecond, ""}} {
		t.Run(name, func(t *testing.T) {
			var at *bench
			inFakeTimeWith(t, rules(t, doc), &setup{base: fasthttp.Client{Dial: slowDial(&at, c.dial)}}, func(b *bench) {
				at = b
				x := b.get("/ok")
				if c.told == "" {
					e := b.failed(x)
					if e.Kind != kinds.TotalTimeout || e.Field != "deadline.reserve" || b.origin.Requests("/ok") != 0 || b.elapsed() != c.dial {
						b.t.Errorf("%v by %s after %s and %d requests, want nothing sent", e.Kind, e.Field, b.elapsed(), b.origin.Requests("/ok"))
					}
					return
				}
				b.ok(x, "ok\n")
				if told := b.origin.Headers()[0].Get("X-Deadline-Ms"); told != c.told {
					b.t.Errorf("told %q, want %q", told, c.told)
				}
			})
		})
	}
}

// A program may send the requests for a host elsewhere; the policy is that of the
// URL.
func TestThePolicyGoesByTheURLAndNotByTheAddress(t *testing.T) {
	t.Parallel()
	addr := silentServer(t)
	b := newBench(t, rules(t, `"timeouts":{"total":"50ms"}`, "orders.shop:8080"), &fasthttp.Client{
		ConfigureClient: func(hc *fasthttp.HostClient) error {
			hc.Addr = addr
			return nil
		},
	})
	if e := b.failed(b.do(t.Context(), request("GET", "http://Orders.Shop:8080/"))); e.Kind != kinds.TotalTimeout {
		t.Error(e)
	}
}

// Where a host has several addresses, each attempt goes to another one.
func TestTheNextAttemptGoesToTheNextAddress(t *testing.T) {
	t.Parallel()
	good, bad := serve(t, prompt), "127.0.0.1:1"
	b := newBench(t, rules(t, threeAttempts), &fasthttp.Client{
		ConfigureClient: func(hc *fasthttp.HostClient) error {
			hc.Addr = bad + "," + good
			return nil
		},
	})
	b.ok(b.do(t.Context(), request("GET", "http://orders/")), "ok")
	if n := len(b.events.Attempts()); n != 2 || b.events.Attempts()[0].Kind != kinds.ConnectError {
		t.Errorf("%d attempts: %+v", n, b.events.Attempts())
	}
}

// diaryConn writes down when it is written to and when it is closed.
type diaryConn struct {
	net.Conn
	mu    sync.Mutex
	lines []string
}

func (c *diaryConn) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.lines); n == 0 || c.lines[n-1] != line {
		c.lines = append(c.lines, line)
	}
}

func (c *diaryConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note("write, failed " + strconv.FormatBool(err != nil))
	return n, err
}

func (c *diaryConn) Close() error {
	c.note("close")
	return c.Conn.Close()
}

// TLS takes leave of its peer, and waits for five seconds where that reads no more. A
// call whose limit passed does not.
func TestNobodyWaitsForAPeerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	server := newTLSEcho(t)
	addr := serve(t, func(conn net.Conn) {
		s := tls.Server(conn, server.serverConfig)
		if s.Handshake() == nil {
			<-t.Context().Done()
		}
	})
	var diary *diaryConn
	b := newBench(t, rules(t, `"timeouts":{"attempt":"300ms"}`, "example.com"), &fasthttp.Client{
		TLSConfig: server.config,
		Dial: func(string) (net.Conn, error) {
			conn, err := net.Dial("tcp", addr)
			diary = &diaryConn{Conn: conn}
			return diary, err
		},
	})
	x := request("PUT", "https://example.com/")
	x.Request.SetBodyRaw(make([]byte, 32<<20))
	if e := b.failed(b.do(t.Context(), x)); e.Kind != kinds.AttemptTimeout {
		t.Error(e)
	}
	diary.mu.Lock()
	defer diary.mu.Unlock()
	want := []string{"write, failed false", "write, failed true", "close", "write, failed true", "close"}
	if !slices.Equal(diary.lines, want) {
		t.Errorf("the connection was used so: %q, want %q", diary.lines, want)
	}
}
