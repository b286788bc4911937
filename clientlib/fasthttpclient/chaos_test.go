package fasthttpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/valyala/fasthttp"
)

// Calls of all kinds at once, to a server that does anything, under any rules: every
// error keeps its contract, every call is told of, and nothing is left.
func TestNothingIsLeftWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		c := &chaos{Dice: policytest.NewDice(seed)}
		c.rules = policytest.MixedRules[c.N(len(policytest.MixedRules))]
		s := &setup{handler: http.HandlerFunc(c.serve), base: fasthttp.Client{StreamResponseBody: c.OneIn(2)}}
		if c.OneIn(3) {
			s.base.MaxConnsPerHost, s.base.MaxConnWaitTimeout = 1+c.N(3), time.Second
		}
		inFakeTimeWith(t, rules(t, c.rules), s, func(b *bench) {
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() { c.call(b, &all) })
			}
			all.Wait()
			<-time.After(time.Minute) // of the bubble, as all waits here
			synctest.Wait()
			policytest.Settled(t, b.events, b.timers)
			c.calm.Store(true)
			c.recovers(b)
		})
		if t.Failed() {
			t.Fatalf("with seed %d under %q", seed, c.rules)
		}
	}
}

type chaos struct {
	*policytest.Dice
	rules string
	// calm says that the server behaves from now on.
	calm atomic.Bool
}

// ends reports whether the rules end a call whose request nobody reads.
func (c *chaos) ends() bool {
	return strings.Contains(c.rules, `"total"`) && !c.shadow() || strings.Contains(c.rules, `{"attempt"`)
}

func (c *chaos) shadow() bool { return strings.Contains(c.rules, "Shadow") }

func (c *chaos) serve(w http.ResponseWriter, r *http.Request) {
	if c.calm.Load() {
		fmt.Fprint(w, "ok")
		return
	}
	if !c.ends() || !c.OneIn(5) {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	pause(c.Within(250 * time.Millisecond))
	switch c.N(9) {
	case 0:
		pause(30 * time.Second)
	case 1:
		w.Header().Set("Retry-After", fmt.Sprint(c.N(2)))
		w.WriteHeader([]int{503, 500, 429, 404}[c.N(4)])
		fmt.Fprint(w, "failed")
	case 2:
		if c.OneIn(2) {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader([]int{200, 503}[c.N(2)])
		for range c.N(6) {
			_ = http.NewResponseController(w).Flush()
			pause(c.Within(200 * time.Millisecond))
			fmt.Fprint(w, "xx")
		}
	case 3:
		c.breakOff(w)
	case 4:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case 5:
		w.Header().Set("Content-Length", "4")
		_ = http.NewResponseController(w).Flush()
		pause(c.Within(800 * time.Millisecond))
		fmt.Fprint(w, "late")
	case 6:
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "bye")
	case 7:
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, "ok")
	}
}

// breakOff says a part of a response, or none of it, and closes the connection, perhaps
// late.
func (c *chaos) breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, []string{
		"", "junk\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n",
	}[c.N(5)])
	<-time.After(c.Within(1500 * time.Millisecond))
}

// caller returns the context of a call, and its end.
func (c *chaos) caller(b *bench, all *sync.WaitGroup) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(b.t.Context())
	switch c.N(6) {
	case 0:
		return context.Background(), cancel
	case 1:
		limited, end := context.WithTimeout(ctx, c.Within(600*time.Millisecond))
		return limited, func() { end(); cancel() }
	case 2:
		at := time.After(c.Within(600 * time.Millisecond))
		all.Go(func() { <-at; cancel() })
	case 3:
		ctx = deadline.With(ctx, c.Within(800*time.Millisecond))
	case 4:
		ctx = clientlib.WithCall(ctx, clientlib.Cap(time.Millisecond+c.Within(700*time.Millisecond)), clientlib.Idempotent(c.OneIn(2)))
	}
	return ctx, cancel
}

// call makes a call in some way, and reads something of its response.
func (c *chaos) call(b *bench, all *sync.WaitGroup) {
	<-time.After(c.Within(500 * time.Millisecond))
	ctx, cancel := c.caller(b, all)
	defer cancel()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://orders/")
	switch c.N(4) {
	case 0:
		req.Header.SetMethod(fasthttp.MethodPost)
		req.SetBodyString("some body")
	case 1:
		body := c.body(all)
		defer body.Close()
		req.Header.SetMethod(fasthttp.MethodPut)
		req.SetBodyStream(body, -1)
	}
	switch c.N(3) {
	case 0:
		c.check(b, b.client.Do(ctx, req, resp))
	case 1:
		c.check(b, b.client.DoTimeout(ctx, req, resp, time.Millisecond+c.Within(900*time.Millisecond)))
	default:
		c.check(b, b.client.DoRedirects(ctx, req, resp, c.N(4)))
	}
	if !resp.IsBodyStream() {
		return
	}
	for range c.N(8) {
		if _, err := resp.BodyStream().Read(make([]byte, 3)); err != nil {
			c.check(b, err)
			break
		}
		if c.OneIn(3) {
			<-time.After(c.Within(300 * time.Millisecond))
		}
	}
}

// body is a request body that comes bit by bit.
func (c *chaos) body(all *sync.WaitGroup) io.ReadCloser {
	body, w := io.Pipe()
	all.Go(func() {
		defer w.Close()
		for range c.N(5) {
			<-time.After(c.Within(200 * time.Millisecond))
			if _, err := io.WriteString(w, "piece"); err != nil {
				return
			}
		}
	})
	return body
}

// check lets pass what is fasthttp's own: the end of a body, redirects that it does
// not follow, and its repetitions in mode Shadow.
func (c *chaos) check(b *bench, err error) {
	if err == nil || err == io.EOF || errors.Is(err, fasthttp.ErrTooManyRedirects) || strings.Contains(err.Error(), "cannot follow a body-preserving redirect") ||
		c.shadow() && err == fasthttp.ErrTimeout {
		return
	}
	for _, breach := range policytest.Breaches(err) {
		b.t.Errorf("%s", breach)
	}
	if timedOut := errors.Is(err, context.DeadlineExceeded); errors.Is(err, fasthttp.ErrTimeout) != timedOut {
		b.t.Errorf("%v is an ErrTimeout: %t", err, !timedOut)
	}
}

// recovers makes sure that the server can be called again: no place in the pool and no
// probe of the circuit is held by what has ended.
func (c *chaos) recovers(b *bench) {
	var err error
	for range 3 {
		x := b.get("/ok")
		if x.Response.IsBodyStream() {
			_ = x.Response.CloseBodyStream()
		}
		if err = x.err; err == nil {
			return
		}
		<-time.After(time.Second)
	}
	b.t.Errorf("in the end: %v", err)
}
