package fasthttpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// moody answers, hangs, drips, breaks off or resets, as it likes.
func moody(ctx *fasthttp.RequestCtx) {
	switch rand.IntN(8) {
	case 0:
		ctx.SetStatusCode(503)
	case 1:
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") })
	case 2:
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	case 3:
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(net.Conn) {})
	default:
		// Whose body this is can be told from it.
		ctx.SetBody(append([]byte("for "), ctx.Request.Header.Peek("X-Caller")...))
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Calls of every fate while the policy is swapped, with requests and responses
// that go back into fasthttp's pools at once. No caller gets another's answer (T30).
func TestCallersDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	for mode, streamed := range map[string]bool{"buffered": false, "streamed": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := fasthttputil.NewInmemoryListener()
			server := &fasthttp.Server{Handler: moody, Logger: quiet{}}
			served := make(chan error, 1)
			go func() { served <- server.Serve(l) }()
			var docs []*document.Document
			for _, text := range []string{
				`"timeouts":{"total":"30ms","attempt":"10ms"},` + threeAttempts,
				`"timeouts":{"total":"20ms","bodyIdle":"5ms","responseHeader":"8ms","connect":"5ms"}`,
				`"timeouts":{"attempt":"5ms"},"deadline":{"header":"X-Deadline-Ms"},` + threeAttempts,
				`"mode":"Shadow","timeouts":{"total":"1ms"}`,
			} {
				docs = append(docs, rules(t, text))
			}
			b := newBench(t, docs[0], &fasthttp.Client{
				StreamResponseBody: streamed, MaxConnsPerHost: 8, MaxConnWaitTimeout: 50 * time.Millisecond,
				ReadTimeout: 100 * time.Millisecond,
				Dial:        func(string) (net.Conn, error) { return l.Dial() },
			})
			var callers, swaps sync.WaitGroup
			var stop atomic.Bool
			swaps.Go(func() {
				tick := time.NewTicker(100 * time.Microsecond)
				defer tick.Stop()
				for i := 0; !stop.Load(); i++ {
					b.policy.Engine().Swap(docs[i%len(docs)])
					<-tick.C
				}
			})
			var answers atomic.Int64
			for i := range 16 {
				callers.Go(func() {
					for n := range 40 {
						if answered(t, b, fmt.Sprintf("%d-%d", i, n)) {
							answers.Add(1)
						}
					}
				})
			}
			callers.Wait()
			stop.Store(true)
			swaps.Wait()
			b.client.CloseIdleConnections()
			if n := b.client.Fasthttp().ConnsCount(); n != 0 || answers.Load() == 0 {
				t.Errorf("%d connections are left after %d answers", n, answers.Load())
			}
			if b.events.Started() != len(b.events.Calls()) {
				t.Errorf("%d calls were told of as started, %d as done", b.events.Started(), len(b.events.Calls()))
			}
			_ = l.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

func answered(t *testing.T, b *bench, name string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(40))*time.Millisecond)
	defer cancel()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://orders/")
	req.Header.Set("X-Caller", name)
	if err := b.client.Do(ctx, req, resp); err != nil || resp.StatusCode() != 200 {
		return false
	}
	var body []byte
	var err error
	if resp.IsBodyStream() {
		if rand.IntN(4) == 0 {
			return false // released without being read
		}
		body, err = io.ReadAll(resp.BodyStream())
	} else {
		body = resp.Body()
	}
	if err != nil {
		return false
	}
	if got := string(body); got != "for "+name {
		t.Errorf("%s got the answer %q", name, got)
	}
	return true
}

// A call on a connection that is there costs no goroutine.
func TestACallNeedsNoGoroutine(t *testing.T) {
	inside, resume := make(chan struct{}), make(chan struct{})
	s := &setup{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			inside <- struct{}{}
			<-resume
		}
	})}
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1m","attempt":"10s","responseHeader":"9s","bodyIdle":"8s","connect":"7s"},`+threeAttempts), s, func(b *bench) {
		b.get("/")
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.do(ctx, request("GET", "http://orders/wait"))
		}()
		<-inside
		var profile strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 2); err != nil {
			b.t.Fatal(err)
		}
		for _, stack := range strings.Split(profile.String(), "\n\n") {
			created := stack[strings.LastIndex(stack, "created by")+1:]
			if strings.Contains(created, "clientlib/fasthttpclient.") || strings.Contains(created, "created by context.") {
				b.t.Errorf("a goroutine of the call's own:\n%s", stack)
			}
		}
		close(resume)
		<-done
	})
}
