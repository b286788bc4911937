package nethttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// What an adversary finds between the rows of the contract.

// bare net/http waits for its writer, which waits for the body, for as long as
// that takes. A total is a wall clock.
func TestARequestBodyThatNeverComesDoesNotHoldACallPastItsLimits(t *testing.T) {
	for _, c := range []struct {
		name, rules string
		ends        time.Duration
		kind        kinds.Kind
	}{
		{"total", `"timeouts":{"total":"1s"}`, time.Second, kinds.TotalTimeout},
		{"total with a copy of the body", `"timeouts":{"total":"1s"},` + threeAttempts, time.Second, kinds.TotalTimeout},
		{"attempt", `"timeouts":{"attempt":"300ms"}`, 300 * time.Millisecond, kinds.AttemptTimeout},
		{"attempt with a copy of the body", `"timeouts":{"attempt":"300ms"},` + threeAttempts, 300 * time.Millisecond, kinds.AttemptTimeout},
		{"the caller", threeAttempts, 2 * time.Second, kinds.TotalTimeout},
		{"the caller, without a limit of ours", ``, 2 * time.Second, kinds.TotalTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, rules(t, c.rules), func(b *bench) {
				body, feed := io.Pipe()
				ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
				defer cancel()
				_, err := b.http.Do(b.request(ctx, http.MethodPut, "/ok", body))
				if e := failure(b.t, err); e.Kind != c.kind || b.elapsed() != c.ends {
					t.Errorf("%v after %s, want %v after %s", e.Kind, b.elapsed(), c.kind, c.ends)
				}
				synctest.Wait()
				if _, err := feed.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the body is still open: %v", err)
				}
			})
		})
	}
}

// envoy#13196, envoy#7358: what is left is told anew on each attempt.
func TestEachAttemptTellsThePeerWhatIsLeft(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},"deadline":{"header":"x-deadline-ms","reserve":"50ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		req := b.request(b.t.Context(), http.MethodGet, "/hang", nil)
		_, err := b.http.Do(req)
		failure(b.t, err)
		var told []string
		for _, h := range b.origin.Headers() {
			told = append(told, h.Get("X-Deadline-Ms"))
		}
		if got := strings.Join(told, " "); got != "950 540 120" {
			t.Errorf("told %s, want 950 540 120", got)
		}
		if len(req.Header) != 0 {
			t.Errorf("the caller's request was changed: %v", req.Header)
		}
	})
}

// Never 0 or negative: refused instead, before a connection is spent.
func TestLessThanTheHeaderCanSayIsNotSent(t *testing.T) {
	const header = `"deadline":{"header":"X-Deadline-Ms","reserve":"100ms"}`
	t.Run("the caller's deadline", func(t *testing.T) {
		inFakeTime(t, rules(t, header+`,"circuitBreaker":{"failures":1}`), func(b *bench) {
			ctx, cancel := context.WithTimeout(b.t.Context(), 100*time.Millisecond)
			defer cancel()
			body := &closeRecorder{Reader: strings.NewReader("x")}
			_, err := b.http.Do(b.request(ctx, http.MethodPut, "/ok", body))
			e := failure(b.t, err)
			if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || e.Attempts != 0 || b.network.Dials() != 0 {
				t.Errorf("%v of the %s, %d attempts, %d connections", e.Kind, e.Source, e.Attempts, b.network.Dials())
			}
			if len(b.events.Circuits()) != 0 || body.closed == 0 {
				t.Error("it counted against the peer, or the body was left open")
			}
		})
	})
	t.Run("a reserve that eats the total", func(t *testing.T) {
		inFakeTime(t, rules(t, header+`,"timeouts":{"total":"100ms"}`), func(b *bench) {
			_, err := b.get("/ok")
			if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || e.Field != "deadline.reserve" || b.network.Dials() != 0 {
				t.Errorf("%v by %s", err, e.Field)
			}
		})
	})
	t.Run("the reserve of the inbound budget", func(t *testing.T) {
		inFakeTime(t, rules(t, header), func(b *bench) {
			_, err := b.http.Do(b.request(deadline.With(b.t.Context(), time.Second), http.MethodGet, "/hang", nil))
			e := failure(b.t, err)
			// 100ms are kept for our own reply, once: the peer has what our call has.
			if told := b.origin.Headers()[0].Get("X-Deadline-Ms"); e.Source != kinds.SourceBudget || b.elapsed() != 900*time.Millisecond || told != "900" {
				t.Errorf("%v after %s, told %s", e, b.elapsed(), told)
			}
		})
	})
	t.Run("before a retry", func(t *testing.T) {
		inFakeTime(t, rules(t, header+`,"timeouts":{"total":"1s"},"retry":{"maxAttempts":3,"backoff":{"initial":"950ms","jitter":"None"}}`), func(b *bench) {
			resp := b.mustGet("/status")
			_, _ = readAll(b.t, resp)
			if resp.StatusCode != 503 || b.elapsed() != 0 || b.events.Skips() != "deadline" {
				t.Errorf("%d after %s, skipped %q", resp.StatusCode, b.elapsed(), b.events.Skips())
			}
		})
	})
	t.Run("on the next hop", func(t *testing.T) {
		inFakeTime(t, rules(t, header+`,"timeouts":{"total":"1s"}`), func(b *bench) {
			_, err := b.get("/redirect?delay=950ms")
			e := failure(b.t, err)
			if e.Kind != kinds.TotalTimeout || e.Attempts != 1 || b.origin.Requests("/ok") != 0 || len(b.events.Calls()) != 1 {
				t.Errorf("%v after %d requests, %d calls", e, e.Attempts, len(b.events.Calls()))
			}
		})
	})
}

type closeRecorder struct {
	io.Reader
	closed int
}

func (c *closeRecorder) Close() error { c.closed++; return nil }

func TestAnErrorOfTheBodyAfterATotalThatEndedAtTheHeadersIsItsOwn(t *testing.T) {
	late := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-time.After(2 * time.Second)
		panic(http.ErrAbortHandler)
	})
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1s","scope":"Headers"}`), late, func(b *bench) {
		_, err := readAll(b.t, b.mustGet("/"))
		if e := failure(b.t, err); e.Kind != kinds.Disconnected || b.elapsed() != 2*time.Second {
			t.Errorf("%v after %s, want Disconnected after 2s", err, b.elapsed())
		}
	})
}

func TestAnAmbientBudgetCoversTheBodyWhateverTheScope(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s","scope":"Headers"}`), func(b *bench) {
		ctx := deadline.With(b.t.Context(), 2*time.Second)
		resp, err := b.http.Do(b.request(ctx, http.MethodGet, "/drip?n=8&every=900ms", nil))
		if err != nil {
			t.Fatal(err)
		}
		text, err := readAll(b.t, resp)
		e := failure(b.t, err)
		if b.elapsed() != 2*time.Second || e.Source != kinds.SourceBudget || e.Limit != 2*time.Second || text != "xx" {
			t.Errorf("%q and %v of the %s after %s, want 2 bytes and the budget's 2s", text, e, e.Source, b.elapsed())
		}
	})
}

func TestAHopToAHostInShadowKeepsTheTotalOfItsCall(t *testing.T) {
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[
		{"name":"orders","hosts":["orders"],"timeouts":{"total":"1s"}},
		{"name":"trial","hosts":["trial"],"mode":"Shadow","timeouts":{"total":"100ms","attempt":"50ms"},"retry":{"maxAttempts":3}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.get("/redirect?to=http://trial/hang")
		if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second || e.Attempts != 2 {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// A discarded response is drained for 50ms at most, and neither that nor the
// backoff after it may pass the total.
func TestDrainingDoesNotPushTheBackoffPastTheDeadline(t *testing.T) {
	stuck := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(950 * time.Millisecond)
		w.WriteHeader(503)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1s"},"retry":{"maxAttempts":3,"backoff":{"initial":"40ms","jitter":"None"}}`), stuck, func(b *bench) {
		_, err := b.get("/")
		if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

func TestSlowRedirectsStayOneCall(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"4s"}`), func(b *bench) {
		// The grace of each hop ends while the next one is under way or, in
		// CheckRedirect, waited on.
		b.http.CheckRedirect = func(*http.Request, []*http.Request) error {
			<-time.After(400 * time.Millisecond)
			return nil
		}
		_, err := b.get("/redirect?n=3&delay=700ms&to=/hang")
		e := failure(b.t, err)
		if e.Kind != kinds.TotalTimeout || b.elapsed() != 4*time.Second || e.Attempts != 4 || len(b.events.Calls()) != 1 {
			t.Errorf("%v after %s, %d calls", e, b.elapsed(), len(b.events.Calls()))
		}
	})
}

func TestARedirectWhoseBodyNobodyClosesIsCountedAllTheSame(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1m"},"circuitBreaker":{}`), func(b *bench) {
		b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp := b.mustGet("/redirect")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if len(b.events.Calls()) != 1 || !b.events.Calls()[0].OK {
			t.Errorf("calls: %+v", b.events.Calls())
		}
		_ = resp.Body.Close()
	})
}

// golang/go#45834, golang/go#16003: 100 Continue is the leave to send the body
// and not the response that responseHeader waits for.
func TestContinueIsNotTheResponse(t *testing.T) {
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	inFakeTimeWith(t, rules(t, `"timeouts":{"responseHeader":"200ms"}`), hang, func(b *bench) {
		req := b.request(b.t.Context(), http.MethodPut, "/", strings.NewReader("payload"))
		req.Header.Set("Expect", "100-continue")
		_, err := b.http.Do(req)
		if e := failure(b.t, err); e.Kind != kinds.ReadTimeout || b.elapsed() != 200*time.Millisecond {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// golang/go#45834: no 100 comes at all; the attempt's ceiling covers the wait.
func TestAWaitForContinueIsPartOfTheAttempt(t *testing.T) {
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(time.Second) })
	inFakeTimeWith(t, rules(t, `"timeouts":{"attempt":"300ms"}`), silent, func(b *bench) {
		req := b.request(b.t.Context(), http.MethodPut, "/", strings.NewReader("payload"))
		req.Header.Set("Expect", "100-continue")
		_, err := b.http.Do(req)
		if e := failure(b.t, err); e.Kind != kinds.AttemptTimeout || b.elapsed() != 300*time.Millisecond {
			t.Errorf("%v after %s", e, b.elapsed())
		}
		time.Sleep(time.Second) // the handler's
	})
}

// golang/go#44988, golang/go#71325: a 101 that nobody asked for is no stream.
func TestAnUpgradeThatNobodyAskedForIsUnderTheTotal(t *testing.T) {
	upgrade := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1s"}`), upgrade, func(b *bench) {
		resp := b.mustGet("/")
		_, err := readAll(b.t, resp)
		if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second {
			t.Errorf("%v after %s", err, b.elapsed())
		}
	})
}

// The idle gap is the silence of the peer, not of the caller.
func TestACallerThatTakesItsTimeIsNotCutByTheIdleGap(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"bodyIdle":"300ms"}`), func(b *bench) {
		resp := b.mustGet("/drip?n=3&every=200ms")
		b1 := make([]byte, 1)
		for i := range 3 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(resp.Body, b1); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		_ = resp.Body.Close()
		hung := b.mustGet("/drip?n=1&every=24h")
		time.Sleep(time.Hour)
		b.start = time.Now()
		_, err := readAll(b.t, hung)
		if e := failure(b.t, err); e.Kind != kinds.ReadTimeout || e.Field != "timeouts.bodyIdle" || b.elapsed() != 300*time.Millisecond {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// T17, golang/go#36026 #59690 #30702: a dead HTTP/2 connection is found out by a
// ping, and calls then go over a new one.
func TestADeadHTTP2ConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		f := &clienttest.FrameServer{Mute: true}
		f.React = func(s *clienttest.Stream) {
			if s.Number == 1 || f.Conns() > 1 {
				s.Headers(true)
			}
		}
		go func() { _ = f.Serve(l) }()
		b := newBench(t, rules(t, `"timeouts":{"attempt":"2s"}`), nil)
		base := b.transport.Unwrap().(*http.Transport)
		base.Protocols = new(http.Protocols)
		base.Protocols.SetUnencryptedHTTP2(true)
		base.DialContext = l.dial
		_, _ = readAll(t, b.mustGet("/"))
		var resp *http.Response
		for {
			var err error
			if resp, err = b.get("/"); err == nil {
				break
			}
			if e := failure(t, err); b.elapsed() > 30*time.Second {
				t.Fatalf("still dead after %s: %v", b.elapsed(), e)
			}
		}
		_, _ = readAll(t, resp)
		b.http.CloseIdleConnections()
		_ = l.Close()
		if err := b.client.Close(); err != nil {
			t.Error(err)
		}
	})
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l.conns <- server
	return client, nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// T16 linkerd/linkerd2#2369: retries end with the total however many are allowed.
func TestRetriesEndWithTheTotal(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"5s"},"retry":{"maxAttempts":10,"backoff":{"initial":"900ms","max":"900ms","jitter":"None"}}`), func(b *bench) {
		resp := b.mustGet("/status")
		_, _ = readAll(b.t, resp)
		if b.elapsed() > 5*time.Second || b.origin.Requests("/status") != 6 || b.events.Skips() != "deadline" {
			t.Errorf("%d requests in %s, skipped %q", b.origin.Requests("/status"), b.elapsed(), b.events.Skips())
		}
	})
}

// A18 grpc/grpc-go#4615: what is asked for is what is made.
func TestAttemptsAreNeverCappedInSilence(t *testing.T) {
	for _, n := range []int{1, 2, 8, 10} {
		inFakeTime(t, rules(t, `"retry":{"maxAttempts":`+strconv.Itoa(n)+`}`), func(b *bench) {
			_, _ = readAll(b.t, b.mustGet("/status"))
			if got := b.origin.Requests("/status"); got != n {
				t.Errorf("%d requests, want %d", got, n)
			}
		})
	}
}

// envoyproxy/envoy#7358: what is told is never 0, which to some is no limit at all.
func TestAConnectionThatTookTooLongIsNotAskedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &clienttest.Origin{}
		network := clienttest.NewNetwork(origin)
		base := &http.Transport{DialContext: func(ctx context.Context, name, addr string) (net.Conn, error) {
			<-time.After(850 * time.Millisecond)
			return network.Dial(ctx, name, addr)
		}}
		b := newBench(t, rules(t, `"timeouts":{"total":"1s","connect":"900ms"},"deadline":{"header":"X-Deadline-Ms","reserve":"200ms"}`), base)
		_, err := b.get("/ok")
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != 850*time.Millisecond {
			t.Errorf("%v after %s", e, b.elapsed())
		}
		for _, h := range origin.Headers() {
			if h.Get("X-Deadline-Ms") == "0" {
				t.Error("the peer was told 0")
			}
		}
		b.http.CloseIdleConnections()
		if err := errors.Join(b.client.Close(), network.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestABodyThatWasCutIsToldOfAsCutThoughItIsOnlyClosed(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		resp := b.mustGet("/drip?n=100&every=300ms")
		<-time.After(2 * time.Second)
		if err := resp.Body.Close(); err != nil {
			b.t.Error(err)
		}
		if len(b.events.Bodies()) != 1 || b.events.Bodies()[0].OK || b.events.Bodies()[0].Kind != kinds.TotalTimeout {
			b.t.Errorf("bodies: %+v", b.events.Bodies())
		}
	})
}
