package nethttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// Behaviours that other libraries learnt about from their trackers and that no
// other test of this package shows; see references_test.go.

// base is a RoundTripper of a test.
type base func(*http.Request) (*http.Response, error)

func (f base) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// onBase runs a test in fake time on a RoundTripper of its own.
func onBase(t *testing.T, rulesText string, rt base, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rules(t, rulesText), rt)
		test(b)
		if err := b.client.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := b.timers.Live(); n != 0 {
			t.Errorf("%d timers were left running", n)
		}
	})
}

func answer(req *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: -1, Request: req}
}

// failsafe-go#65 #73 #134: each attempt has a context of its own, and each is
// ended.
func TestEachAttemptHasAContextOfItsOwn(t *testing.T) {
	var contexts []context.Context
	onBase(t, threeAttempts, func(req *http.Request) (*http.Response, error) {
		contexts = append(contexts, req.Context())
		return answer(req, 503, http.NoBody), nil
	}, func(b *bench) {
		_, _ = readAll(b.t, b.mustGet("/"))
		if len(contexts) != 3 || contexts[0] == contexts[1] || contexts[1] == contexts[2] {
			t.Fatalf("%d contexts", len(contexts))
		}
		for i, ctx := range contexts {
			if ctx.Err() == nil {
				t.Errorf("the context of attempt %d was never ended", i+1)
			}
		}
	})
}

// go-retryablehttp#179 #299: a response or an error, never both, whatever the
// library underneath does.
func TestNeverAResponseAndAnError(t *testing.T) {
	broken := errors.New("broken")
	body := &closeRecorder{Reader: strings.NewReader("x")}
	for name, rt := range map[string]base{
		"both":    func(req *http.Request) (*http.Response, error) { return answer(req, 200, body), broken },
		"neither": func(*http.Request) (*http.Response, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			onBase(t, ``, rt, func(b *bench) {
				resp, err := b.transport.RoundTrip(b.request(b.t.Context(), http.MethodGet, "/", nil))
				if resp != nil || err == nil {
					t.Errorf("%v and %v", resp, err)
				}
				failure(t, err)
			})
		})
	}
	if body.closed != 1 {
		t.Errorf("the body of the response that came with an error was closed %d times", body.closed)
	}
	t.Run("no body", func(t *testing.T) {
		onBase(t, ``, func(req *http.Request) (*http.Response, error) { return answer(req, 200, nil), nil }, func(b *bench) {
			if text, err := readAll(b.t, b.mustGet("/")); text != "" || err != nil {
				t.Errorf("%q %v", text, err)
			}
		})
	})
}

// go-retryablehttp#82 #246, golang/go#77370, openai-go#495, heimdall#45, rehttp
// (M8): a discarded response is read up to 64 KiB and for 50ms, no more.
func TestDrainingIsBounded(t *testing.T) {
	var read int
	endless := base(func(req *http.Request) (*http.Response, error) {
		if read > 0 {
			return answer(req, 200, http.NoBody), nil
		}
		return answer(req, 503, io.NopCloser(readFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil }))), nil
	})
	onBase(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms","jitter":"None"}}`, endless, func(b *bench) {
		_, _ = readAll(b.t, b.mustGet("/"))
		if read < 32<<10 || read > 64<<10 {
			t.Errorf("%d bytes were drained", read)
		}
	})
	silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	inFakeTimeWith(t, rules(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms","jitter":"None"}}`), silent, func(b *bench) {
		resp := b.mustGet("/")
		if b.elapsed() != 50*time.Millisecond {
			t.Errorf("the second attempt came after %s", b.elapsed())
		}
		_ = resp.Body.Close()
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// connect-go#904, grpc-go#2211, golang/go#64449 #14238: the peer gives up at the
// instant at which our time is over, and says so in its own words.
func TestAtTheDeadlineItIsTheDeadlineWhateverTheWireSays(t *testing.T) {
	for _, wire := range []error{io.EOF, context.Canceled, context.DeadlineExceeded, errors.New("stream error: CANCEL"), &net.OpError{Op: "read", Err: errors.New("reset")}} {
		onBase(t, `"timeouts":{"total":"1s"},`+threeAttempts, func(req *http.Request) (*http.Response, error) {
			<-time.After(time.Second)
			return nil, wire
		}, func(b *bench) {
			_, err := b.get("/")
			if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourcePolicy || errors.Is(err, context.Canceled) {
				t.Errorf("%v became %v", wire, err)
			}
		})
	}
}

// T19 envoyproxy/gateway#8193: a delay that something in between adds counts, also
// when it does not heed the context.
func TestADelayUnderneathCounts(t *testing.T) {
	onBase(t, `"timeouts":{"total":"60ms"}`, func(req *http.Request) (*http.Response, error) {
		<-time.After(65 * time.Millisecond)
		return answer(req, 200, http.NoBody), nil
	}, func(b *bench) {
		_, err := b.get("/")
		if e := failure(b.t, err); e.Kind != kinds.TotalTimeout {
			t.Errorf("%v", err)
		}
	})
}

// A10 gateway-api: without a ceiling per attempt the total cuts. T09
// go-retryablehttp#127: the first attempt may then use it up; that is documented.
func TestWithoutACeilingTheTotalCuts(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"5s","attempt":"0s"},`+threeAttempts), func(b *bench) {
		_, err := b.get("/hang")
		if e := failure(b.t, err); e.Kind != kinds.TotalTimeout || b.elapsed() != 5*time.Second || e.Attempts != 1 {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// A12 istio/istio#13167: a ceiling without a total does what it says.
func TestACeilingWithoutATotalCuts(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"attempt":"200ms"},"retry":{"maxAttempts":2,"backoff":{"initial":"10ms","jitter":"None"}}`), func(b *bench) {
		_, err := b.get("/slow?delay=500ms")
		if e := failure(b.t, err); e.Kind != kinds.AttemptTimeout || b.elapsed() != 410*time.Millisecond || b.origin.Requests("/slow") != 2 {
			t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

// A09 projectcontour/contour#6373, A08 kumahq/kuma#3629: "0s" is no limit.
func TestZeroIsNoLimit(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"0s","attempt":"0s","connect":"0s","responseHeader":"0s","bodyIdle":"0s"}`), func(b *bench) {
		if text, err := readAll(b.t, b.mustGet("/slow?delay=20s")); text != "late\n" || err != nil {
			t.Errorf("%q %v", text, err)
		}
	})
}

// T07 pace/bricks#63: no attempt begins after the caller's deadline.
func TestNoAttemptAfterTheCallersDeadline(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"attempt":"400ms"},"retry":{"maxAttempts":9,"backoff":{"initial":"10ms","jitter":"None"}}`), func(b *bench) {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		_, err := b.http.Do(b.request(ctx, http.MethodGet, "/hang", nil))
		e := failure(b.t, err)
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || b.origin.Requests("/hang") != 3 || b.elapsed() != time.Second {
			t.Errorf("%v after %s and %d requests", e, b.elapsed(), b.origin.Requests("/hang"))
		}
	})
}

// A28 istio/istio#50506, #13851, dotnet/extensions#5248: a POST that the server
// may have committed is made once, unless a key or the call site says otherwise.
func TestAPostIsMadeTwiceOnlyWithLeave(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"POST":                  {func(*http.Request) {}, 1},
		"POST with a key":       {func(r *http.Request) { r.Header.Set("Idempotency-Key", "7") }, 3},
		"a GET that must not":   {func(r *http.Request) { r.Method = "GET"; *r = *r.WithContext(vouch(r.Context(), false)) }, 1},
		"a POST vouched for":    {func(r *http.Request) { *r = *r.WithContext(vouch(r.Context(), true)) }, 3},
		"POST with another key": {func(r *http.Request) { r.Header.Set("X-Request-Id", "7") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, rules(t, threeAttempts), func(b *bench) {
				req := b.request(b.t.Context(), http.MethodPost, "/status", strings.NewReader("x"))
				c.change(req)
				resp, err := b.http.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = readAll(b.t, resp)
				if got := b.origin.Requests("/status"); got != c.want {
					t.Errorf("%d requests, want %d", got, c.want)
				}
			})
		})
	}
}

// golang/go#16957 #59310 #18305 #34282, dd-trace-go#4525, routing-release#513:
// hooks that run twice, after the return, and all at once. For -race.
func TestHooksMayComeLateAndTwice(t *testing.T) {
	var late sync.WaitGroup
	onBase(t, `"timeouts":{"total":"1h","connect":"1ms","responseHeader":"1ms"},`+threeAttempts, func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		all := func() {
			trace.GetConn("orders:80")
			trace.DNSStart(httptrace.DNSStartInfo{})
			trace.ConnectStart("tcp", "orders:80")
			trace.TLSHandshakeStart()
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteRequest(httptrace.WroteRequestInfo{})
			trace.Got100Continue()
			trace.GotFirstResponseByte()
			trace.WroteRequest(httptrace.WroteRequestInfo{Err: io.EOF})
		}
		all()
		for range 3 {
			late.Go(all)
		}
		return answer(req, 200, http.NoBody), nil
	}, func(b *bench) {
		for range 50 {
			resp, err := b.get("/")
			if err == nil {
				_, _ = readAll(b.t, resp)
			}
		}
		late.Wait()
		time.Sleep(time.Hour)
	})
}

// otel-contrib#3543, kubernetes#104844, keda#7902, elastic/apm-agent-go#455: what
// is underneath can be had.
func TestTheTransportUnderneathCanBeHad(t *testing.T) {
	inner := &http.Transport{}
	client := overSockets(t, ``, inner)
	if got := client.http.Transport.(*nethttp.Transport).Unwrap(); got != inner {
		t.Errorf("%T is not what was wrapped", got)
	}
}

// go-retryablehttp (M5): the final 503 stays a response, the caller's request
// keeps its body, redirects stay http.Client's. M4: a timeout is a timeout to
// everybody who asks, and the caller's cause survives; see also
// TestCallersCancellationIsTheCallersOwn.
func TestATimeoutIsATimeoutToEverybody(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		_, err := b.get("/hang")
		var netErr net.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &netErr) || !netErr.Timeout() || errors.Is(err, context.Canceled) {
			t.Errorf("%v is not a timeout to everybody", err)
		}
	})
}

// GetBody of the caller fails: the call ends with that, not with half a body.
func TestAGetBodyThatFailsEndsTheCall(t *testing.T) {
	inFakeTime(t, rules(t, threeAttempts), func(b *bench) {
		req := b.request(b.t.Context(), http.MethodPut, "/status", strings.NewReader("x"))
		gone := errors.New("the file is gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		_, err := b.http.Do(req)
		if e := failure(b.t, err); e.Kind != kinds.BodyError || !errors.Is(err, gone) || b.origin.Requests("/status") != 1 {
			t.Errorf("%v after %d requests", err, b.origin.Requests("/status"))
		}
	})
}

// resilience4j#2181, Polly#1578: the breaker stays open over a reload, and the
// retry budget spent.
func TestAReloadNeitherClosesACircuitNorFillsABudget(t *testing.T) {
	const strict = `"circuitBreaker":{"failures":1,"recovery":"1m"}`
	inFakeTime(t, rules(t, strict), func(b *bench) {
		_, _ = readAll(b.t, b.mustGet("/status"))
		b.client.Engine().Swap(rules(t, strict+`,"timeouts":{"total":"1s"}`))
		_, err := b.get("/ok")
		if e := failure(b.t, err); e.Kind != kinds.CircuitOpen {
			t.Errorf("%v", err)
		}
	})
	const frugal = `"retry":{"maxAttempts":2,"budget":{"percent":1,"burst":1}}`
	inFakeTime(t, rules(t, frugal), func(b *bench) {
		for range 2 {
			_, _ = readAll(b.t, b.mustGet("/status"))
			b.client.Engine().Swap(rules(t, frugal+`,"timeouts":{"total":"1m"}`))
		}
		if got := b.origin.Requests("/status"); got != 3 || b.events.Skips() != "attempts,budget" {
			t.Errorf("%d requests, skipped %s", got, b.events.Skips())
		}
	})
}

// failsafe-go#136: a breaker recovers, also when the call that opened it was
// cancelled later, and nothing of one call is kept in it.
func TestACancelledProbeLeavesItsSlotToTheNextCall(t *testing.T) {
	inFakeTime(t, rules(t, `"circuitBreaker":{"failures":1,"recovery":"1s"}`), func(b *bench) {
		_, _ = readAll(b.t, b.mustGet("/status"))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := b.http.Do(b.request(ctx, http.MethodGet, "/hang", nil))
		if e := failure(b.t, err); e.Kind != kinds.Cancelled {
			t.Errorf("%v", err)
		}
		if resp, err := b.get("/ok"); err != nil {
			t.Errorf("the cancelled probe kept its slot: %v", err)
		} else {
			_, _ = readAll(b.t, resp)
		}
	})
}
