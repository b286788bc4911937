package fasthttpclient_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// uploads is a handler that fails a number of times and remembers the bodies.
type uploads struct {
	mu     sync.Mutex
	fail   int
	bodies []string
	// unread says that failures are sent without reading the body.
	unread bool
}

func (u *uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	failing := len(u.bodies) < u.fail
	u.mu.Unlock()
	body := "unread"
	if !failing || !u.unread {
		data, _ := io.ReadAll(r.Body)
		body = string(data)
	}
	u.mu.Lock()
	u.bodies = append(u.bodies, body)
	u.mu.Unlock()
	if failing {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// closer counts how often a stream is closed.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error {
	c.closed++
	return nil
}

func TestStreamsAreReplayedFromABoundedCopy(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		limit  string
		bodies int
		skip   string
	}{
		"size known":            {7, `7`, 3, ""},
		"size unknown":          {-1, `7`, 3, ""},
		"too long, and known":   {7, `6`, 1, "non_replayable"},
		"too long, and unknown": {-1, `6`, 1, "non_replayable"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uploads{fail: 2}
			doc := rules(t, `"retry":{"maxAttempts":3,"maxReplayBytes":`+c.limit+`,"backoff":{"initial":"10ms","jitter":"None"}}`)
			inFakeTimeWith(t, doc, &setup{handler: u}, func(b *bench) {
				body := &closer{Reader: strings.NewReader("payload")}
				x := request("PUT", "http://orders/")
				x.Request.SetBodyStream(body, c.size)
				b.do(b.t.Context(), x)
				if x.err != nil || b.events.Skips() != c.skip {
					b.t.Errorf("%v, skipped %q", x.err, b.events.Skips())
				}
				if want := slices.Repeat([]string{"payload"}, c.bodies); !slices.Equal(u.bodies, want) {
					b.t.Errorf("the server got %q, want %q", u.bodies, want)
				}
				if body.closed != 1 || x.Request.IsBodyStream() {
					b.t.Errorf("the stream was closed %d times; the request still has it: %t", body.closed, x.Request.IsBodyStream())
				}
			})
		})
	}
}

func TestABodyInMemoryIsSentAgainAsItIs(t *testing.T) {
	u := &uploads{fail: 2}
	inFakeTimeWith(t, rules(t, `"deadline":{"header":"X-Deadline-Ms"},"timeouts":{"total":"1m"},`+threeAttempts), &setup{handler: u}, func(b *bench) {
		big := strings.Repeat("x", 1<<20) // far beyond maxReplayBytes, which is for copies
		b.ok(b.do(b.t.Context(), request("PUT", "http://orders/", big)), "ok")
		if len(u.bodies) != 3 || u.bodies[0] != big || u.bodies[2] != big {
			b.t.Errorf("the server got %d bodies", len(u.bodies))
		}
	})
}

// A writer that falls silent, or a pipe, does not hold the call past its total.
func TestAStreamThatCanBeClosedIsNotWaitedFor(t *testing.T) {
	for name, stream := range map[string]func(req *fasthttp.Request, silent <-chan struct{}){
		"pipe": func(req *fasthttp.Request, _ <-chan struct{}) {
			r, w := io.Pipe()
			go func() { _, _ = io.WriteString(w, "some") }()
			req.SetBodyStream(r, -1)
		},
		"stream writer": func(req *fasthttp.Request, silent <-chan struct{}) {
			req.SetBodyStreamWriter(func(w *bufio.Writer) {
				_, _ = w.WriteString("some")
				_ = w.Flush()
				<-silent
			})
		},
	} {
		for policy, tail := range map[string]string{"once": "", "with retries": "," + threeAttempts} {
			t.Run(name+" "+policy, func(t *testing.T) {
				inFakeTime(t, rules(t, `"timeouts":{"total":"5s","attempt":"1s"}`+tail), func(b *bench) {
					silent := make(chan struct{})
					defer close(silent)
					x := request("PUT", "http://orders/echo")
					stream(x.Request, silent)
					e := b.failed(b.do(b.t.Context(), x))
					if e.Kind != kinds.AttemptTimeout || b.elapsed() != time.Second || e.Attempts != 1 {
						b.t.Errorf("%v after %s, want AttemptTimeout after 1s: the stream is gone", e, b.elapsed())
					}
				})
			})
		}
	}
}

// T30, the trap of timeouts in fasthttp: somebody who was given up goes on using
// what its caller has put back into the pool. Nobody does here.
func TestNothingIsTouchedAfterATimeout(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1s"}`), func(b *bench) {
		for _, path := range []string{"/hang", "/drip?n=100", "/slowheaders?n=30"} {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.SetRequestURI("http://orders" + path)
			req.Header.SetMethod("PUT")
			req.SetBodyString("body")
			_, err := b.body(&exchange{Request: req, Response: resp, err: b.client.Do(b.t.Context(), req, resp)})
			if e := failureOf(b.t, err); e.Kind != kinds.TotalTimeout {
				b.t.Errorf("%s: %v", path, err)
			}
			fasthttp.ReleaseRequest(req)
			fasthttp.ReleaseResponse(resp)
			// These are, or may be, the same objects: the race detector looks on.
			again := fasthttp.AcquireResponse()
			again.SetBodyString("mine")
			again.Header.Set("X", "mine")
			<-time.After(10 * time.Second)
			synctest.Wait()
			if string(again.Body()) != "mine" || string(again.Header.Peek("X")) != "mine" {
				b.t.Errorf("%s: the response changed in its next owner's hands: %q", path, again.Body())
			}
			fasthttp.ReleaseResponse(again)
		}
	})
}

func TestAStreamCanBeClosedWhileItIsRead(t *testing.T) {
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1m"}`), streaming(), func(b *bench) {
		x := b.get("/drip?n=8&every=10s")
		read := make(chan error, 1)
		stream := x.Response.BodyStream().(fasthttp.ReadCloserWithError)
		go func() {
			_, err := io.ReadAll(stream)
			read <- err
		}()
		synctest.Wait()
		if err := stream.CloseWithError(errors.New("enough")); err != nil {
			b.t.Error(err)
		}
		if err := <-read; err == nil {
			b.t.Error("the read ended as if it were the end of the body")
		}
		if _, err := stream.Read(make([]byte, 1)); err == nil {
			b.t.Error("a read after the close succeeded")
		}
		if n := b.client.Fasthttp().ConnsCount(); n != 0 || b.elapsed() != 0 {
			b.t.Errorf("%d connections are left after %s", n, b.elapsed())
		}
	})
}

func TestAStreamReadToItsEndKeepsItsConnection(t *testing.T) {
	for name, doc := range map[string]string{"under a policy": "orders", "without one": "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1m","bodyIdle":"10s"}`, doc), streaming(), func(b *bench) {
				for range 3 {
					if text, err := b.body(b.get("/drip?n=8&every=1ms")); err != nil || text != "xxxxxxxx" {
						b.t.Errorf("read %q, %v", text, err)
					}
				}
				closed := b.get("/drip?n=8&every=1ms")
				_ = closed.Response.CloseBodyStream()
				released := fasthttp.AcquireResponse()
				if err := b.client.Do(b.t.Context(), closed.Request, released); err != nil {
					b.t.Fatal(err)
				}
				fasthttp.ReleaseResponse(released)
				if b.network.Dials() != 2 || b.client.Fasthttp().ConnsCount() != 0 {
					b.t.Errorf("%d connections were made, %d are left; want 2 and 0", b.network.Dials(), b.client.Fasthttp().ConnsCount())
				}
			})
		})
	}
}

func TestAResponseThatDoesNotMatter(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1m"}`), func(b *bench) {
		x := request("GET", "http://orders/ok")
		for range 2 {
			if err := b.client.Do(b.t.Context(), x.Request, nil); err != nil {
				b.t.Fatal(err)
			}
		}
		if b.network.Dials() != 1 || len(b.events.Bodies()) != 2 {
			b.t.Errorf("%d connections, %d bodies", b.network.Dials(), len(b.events.Bodies()))
		}
	})
}

func TestAFailedCallLeavesNothingOfAnEarlierAttempt(t *testing.T) {
	served := 0
	s := &setup{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served++; served == 1 {
			w.Header().Set("X-Attempt", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		panic(http.ErrAbortHandler)
	})}
	inFakeTimeWith(t, rules(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`), s, func(b *bench) {
		x := b.get("/")
		if e := b.failed(x); e.Kind != kinds.Disconnected || e.Attempts != 2 || len(x.Response.Header.Peek("X-Attempt")) != 0 {
			b.t.Errorf("%v, and the response says %q", e, x.Response.Header.String())
		}
	})
}

// A stream that is closed at the moment at which it ends: the interruption must not
// reach the connection in its next owner's hands.
func TestAnInterruptionStaysWithItsCall(t *testing.T) {
	t.Parallel()
	addr := serve(t, prompt)
	b := newBench(t, rules(t, `"timeouts":{"total":"1m"}`, "127.0.0.1"), &fasthttp.Client{StreamResponseBody: true, MaxConnsPerHost: 1})
	for range 300 {
		x := b.do(t.Context(), request("GET", "http://"+addr))
		if x.err != nil {
			t.Fatal(x.err)
		}
		stream := x.Response.BodyStream().(fasthttp.ReadCloserWithError)
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.ReadAll(stream) })
		both.Go(func() { _ = stream.CloseWithError(errors.New("enough")) })
		both.Wait()
	}
}

// A response that is discarded holds the next attempt up for 50ms at most, whatever
// becomes of its body.
func TestADiscardedBodyIsReadWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		body  func(w http.ResponseWriter, r *http.Request)
		after time.Duration
		dials int
	}{
		"short": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "busy") }, 10 * time.Millisecond, 1},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 50 * time.Millisecond, 2},
		"announced as too long": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 65<<10)) }, 10 * time.Millisecond, 2},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 8<<10)); err != nil {
					return
				}
			}
		}, 10 * time.Millisecond, 2},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			s := &setup{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests > 1 {
					_, _ = io.WriteString(w, "ok")
					return
				}
				if name == "announced as too long" {
					w.Header().Set("Content-Length", "66560")
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				c.body(w, r)
			})}
			inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1s"},`+threeAttempts), s, func(b *bench) {
				b.ok(b.get("/"), "ok")
				if b.elapsed() != c.after || b.network.Dials() != c.dials {
					b.t.Errorf("after %s on %d connections, want %s on %d", b.elapsed(), b.network.Dials(), c.after, c.dials)
				}
			})
		})
	}
}
