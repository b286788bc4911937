package fasthttpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

var errOfTheProgram = errors.New("a panic of the program's")

// fragile is a connection that panics in a Read.
type fragile struct {
	net.Conn
	// after counts the Reads that work; negative for all.
	after *int
}

func (c fragile) Read(p []byte) (int, error) {
	if *c.after == 0 {
		panic(errOfTheProgram)
	}
	*c.after--
	return c.Conn.Read(p)
}

// What a program has within a call may panic, and who serves recovers. Neither a call
// in flight, nor the place of a probe, nor a place in the pool, nor a timer is left.
func TestAPanicEndsItsCall(t *testing.T) {
	const (
		policy    = `"timeouts":{"total":"10s","attempt":"5s","connect":"3s","responseHeader":"2s","bodyIdle":"1s"},`
		unlimited = `"timeouts":{"responseHeader":"0s"},`
	)
	type trap struct {
		dials bool
		reads int // of a connection, before it panics; negative for never
		body  bool
	}
	for name, c := range map[string]struct {
		trap
		path          string
		attempts      int
		headers, once bool
	}{
		"dial":            {trap: trap{dials: true, reads: -1}, path: "/ok", attempts: 1},
		"request body":    {trap: trap{body: true, reads: -1}, path: "/ok", attempts: 1},
		"headers":         {trap: trap{reads: 0}, path: "/ok", attempts: 1},
		"body":            {trap: trap{reads: 1}, path: "/drip?n=3&every=10ms", attempts: 1, headers: true},
		"discarded body":  {trap: trap{reads: 1}, path: "/late", attempts: 1},
		"redirect's body": {trap: trap{reads: 1}, path: "/late?code=307", attempts: 1, headers: true},
	} {
		for _, limits := range []string{policy, unlimited} {
			t.Run(name+" "+limits, func(t *testing.T) {
				now := trap{reads: -1}
				origin := &clienttest.Origin{}
				network := new(clienttest.Network)
				s := &setup{handler: lateBodies(origin)}
				s.base.MaxConnsPerHost, s.base.MaxConnWaitTimeout = 1, time.Minute
				s.base.Dial = func(addr string) (net.Conn, error) {
					if now.dials {
						panic(errOfTheProgram)
					}
					conn, err := network.Dial(context.Background(), "tcp", addr)
					reads := now.reads
					return fragile{conn, &reads}, err
				}
				doc := rules(t, limits+`"circuitBreaker":{"failures":1,"recovery":"1s"},"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`)
				inFakeTimeWith(t, doc, s, func(b *bench) {
					network = b.network
					b.get("/status?code=500") // opens the circuit
					b.client.CloseIdleConnections()
					<-time.After(time.Second) // of the bubble
					calls := len(b.events.Calls())
					now = c.trap
					x := request("PUT", "http://orders"+c.path)
					if now.body {
						x.Request.SetBodyStream(readerFunc(func([]byte) (int, error) { panic(errOfTheProgram) }), -1)
					}
					func() {
						defer func() {
							if got := recover(); got != errOfTheProgram {
								t.Errorf("recovered %v", got)
							}
						}()
						err := b.client.DoRedirects(b.t.Context(), x.Request, x.Response, 3)
						t.Errorf("nothing panicked: %v", err)
					}()
					now = trap{reads: -1}
					if n := b.timers.Live(); n != 0 {
						t.Errorf("%d timers are running", n)
					}
					if n := len(b.events.Calls()) - calls; n != 1 {
						b.t.Fatalf("%d calls are told of", n)
					}
					e := b.events.Calls()[calls]
					if !c.headers && (e.OK || e.Kind != kinds.Unknown) || e.Attempts != c.attempts {
						t.Errorf("event %+v", e)
					}
					if c.headers {
						if last := b.events.Bodies()[len(b.events.Bodies())-1]; last.OK || last.Kind != kinds.Unknown {
							t.Errorf("body %+v", last)
						}
					}
					b.ok(b.get("/ok"), "ok\n") // the next probe, on the only connection
					if e := b.events.Calls()[len(b.events.Calls())-1]; !e.OK {
						t.Errorf("the next call: %+v", e)
					}
				})
			})
		}
	}
}

// lateBodies has the bodies of /late come some time after their headers.
func lateBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/late" {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "4")
		w.Header().Set("Location", "/ok")
		code := http.StatusServiceUnavailable
		if strings.Contains(r.URL.RawQuery, "307") {
			code = http.StatusTemporaryRedirect
		}
		w.WriteHeader(code)
		_ = http.NewResponseController(w).Flush()
		<-time.After(time.Millisecond) // of the bubble
		_, _ = io.WriteString(w, "late")
	})
}

// A host without a policy, and a dial that its call did not wait for.
func TestAPanicOfADialIsItsCallersOrNobodys(t *testing.T) {
	release, panicked := make(chan struct{}), make(chan struct{})
	base := &fasthttp.Client{MaxConnsPerHost: 1, MaxConnWaitTimeout: time.Minute, Dial: func(addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "orders") {
			<-release
			defer close(panicked)
		}
		panic(errOfTheProgram)
	}}
	b := newBench(t, rules(t, `"timeouts":{"total":"20ms"}`), base)
	x := b.do(t.Context(), request("GET", "http://orders/"))
	if e := b.failed(x); e.Kind != kinds.TotalTimeout {
		t.Error(e)
	}
	close(release)
	<-panicked
	for range 2 { // there is one connection only
		func() {
			defer func() {
				if got := recover(); got != errOfTheProgram {
					t.Errorf("recovered %v", got)
				}
			}()
			b.do(context.Background(), request("GET", "http://elsewhere/"))
		}()
	}
}
