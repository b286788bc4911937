package fasthttpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// The rows of the engine's table in the contract, in its order, as far as they are
// fasthttp's: it has no upgrades and no HTTP/2.

// streaming is a client that reads bodies from the connection.
func streaming() *setup { return &setup{base: fasthttp.Client{StreamResponseBody: true}} }

// both runs a test with buffered and with streamed bodies.
func both(t *testing.T, doc func() string, test func(b *bench)) {
	t.Helper()
	for name, s := range map[string]*setup{"buffered": {}, "streamed": streaming()} {
		t.Run(name, func(t *testing.T) { inFakeTimeWith(t, rules(t, doc()), s, test) })
	}
}

func of(rules string) func() string { return func() string { return rules } }

// body reads the body of a call, whichever way it comes.
func (b *bench) body(x *exchange) (string, error) {
	b.t.Helper()
	if x.err != nil || !x.Response.IsBodyStream() {
		return string(x.Response.Body()), x.err
	}
	data, err := io.ReadAll(x.Response.BodyStream())
	if cerr := x.Response.CloseBodyStream(); cerr != nil {
		b.t.Errorf("close the body: %v", cerr)
	}
	return string(data), err
}

func TestHungServerIsRetriedAndEndsAtTheTotal(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1s","attempt":"400ms"},`+threeAttempts), func(b *bench) {
		e := b.failed(b.get("/hang"))
		if b.elapsed() != time.Second || e.Kind != kinds.TotalTimeout || e.Attempts != 3 {
			b.t.Errorf("after %s: %v with %d attempts, want TotalTimeout at 1s with 3", b.elapsed(), e.Kind, e.Attempts)
		}
		if e.Field != "timeouts.total" || e.Limit != time.Second || e.Source != kinds.SourcePolicy {
			b.t.Errorf("attributed to %s %s of the %s", e.Field, e.Limit, e.Source)
		}
		if n := b.origin.Requests("/hang"); n != 3 {
			b.t.Errorf("the server saw %d requests, want 3", n)
		}
		// 400ms + 10ms + 400ms + 20ms leave 170ms.
		if last := b.events.Attempts()[2]; last.Duration != 170*time.Millisecond {
			b.t.Errorf("the third attempt had %s, want the 170ms that were left", last.Duration)
		}
	})
}

func TestHungServerEndsAfterTheLastCeilingWhenTheTotalIsLong(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"5s","attempt":"400ms"},`+threeAttempts), func(b *bench) {
		e := b.failed(b.get("/hang"))
		if want := 3*400*time.Millisecond + 30*time.Millisecond; b.elapsed() != want {
			b.t.Errorf("ended after %s, want %s", b.elapsed(), want)
		}
		if e.Kind != kinds.AttemptTimeout || e.Skip != kinds.SkipAttempts || e.Field != "timeouts.attempt" {
			b.t.Errorf("got %v (%s, %s), want AttemptTimeout, attempts, timeouts.attempt", e.Kind, e.Skip, e.Field)
		}
	})
}

func TestTotalCoversABodyThatDrips(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1s"}`), func(b *bench) {
		text, err := b.body(b.get("/drip?n=8&every=400ms"))
		e := failureOf(b.t, err)
		if b.elapsed() != time.Second || e.Kind != kinds.TotalTimeout {
			b.t.Errorf("the read failed after %s with %v, want 1s and TotalTimeout", b.elapsed(), e.Kind)
		}
		// A chunk that is not whole is not handed on: what came is.
		if text != "xx" && text != "" {
			b.t.Errorf("read %q before, want what had come", text)
		}
		synctest.Wait()
		b.start = time.Now()
		b.ok(b.get("/ok"), "ok\n")
		if n := b.network.Dials(); n != 2 {
			b.t.Errorf("%d connections, want 2: the cut one must not be used again", n)
		}
		if !slices.ContainsFunc(b.events.Calls(), func(c engine.CallEvent) bool { return c.OK }) {
			b.t.Errorf("calls: %+v", b.events.Calls())
		}
	})
}

func TestScopeHeadersLetsTheBodyTakeItsTime(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1s","scope":"Headers"}`), func(b *bench) {
		text, err := b.body(b.get("/drip?n=8&every=500ms"))
		if err != nil || text != "xxxxxxxx" || b.elapsed() != 4*time.Second {
			b.t.Errorf("read %q, %v after %s, want 8 bytes after 4s", text, err, b.elapsed())
		}
	})
}

func TestBodyIdleCutsASilentBody(t *testing.T) {
	both(t, of(`"timeouts":{"bodyIdle":"300ms"}`), func(b *bench) {
		_, err := b.body(b.get("/drip?n=8&every=500ms"))
		e := failureOf(b.t, err)
		if b.elapsed() != 300*time.Millisecond || e.Kind != kinds.ReadTimeout || e.Field != "timeouts.bodyIdle" {
			b.t.Errorf("%v by %s after %s, want ReadTimeout by timeouts.bodyIdle after 300ms", e.Kind, e.Field, b.elapsed())
		}
	})
}

func TestBodyIdleLetsASteadyBodyPass(t *testing.T) {
	both(t, of(`"timeouts":{"bodyIdle":"600ms"}`), func(b *bench) {
		text, err := b.body(b.get("/drip?n=8&every=500ms"))
		if err != nil || len(text) != 8 {
			b.t.Errorf("read %q, %v", text, err)
		}
	})
}

func TestResponseHeaderLimitIsAReadTimeoutOfTheLibrarysFamily(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"responseHeader":"200ms"},`+threeAttempts), func(b *bench) {
		x := b.get("/slow?delay=1s")
		e := b.failed(x)
		if e.Kind != kinds.ReadTimeout || e.Attempts != 3 || b.origin.Requests("/slow") != 3 {
			b.t.Errorf("%v after %d attempts, want ReadTimeout after 3", e.Kind, e.Attempts)
		}
		if !errors.Is(x.err, fasthttp.ErrTimeout) || !errors.Is(x.err, context.DeadlineExceeded) || !e.Timeout() {
			b.t.Errorf("%v is not a timeout in fasthttp's and context's sense", x.err)
		}
		if strings.Contains(e.Error(), "total") {
			b.t.Errorf("%q speaks of a total", e)
		}
	})
}

func TestCallersCancellationIsTheCallersOwn(t *testing.T) {
	doc := of(`"timeouts":{"total":"10s","attempt":"5s"},` + threeAttempts + `,"circuitBreaker":{"failures":1}`)
	reason := errors.New("the shop is closing")
	for _, phase := range []struct {
		name   string
		path   string
		inBody bool
	}{{"before the headers", "/hang", false}, {"in the backoff", "/status?retry_after=2", false}, {"in the body", "/drip", true}} {
		t.Run(phase.name, func(t *testing.T) {
			both(t, doc, func(b *bench) {
				ctx, cancel := context.WithCancelCause(b.t.Context())
				time.AfterFunc(time.Second, func() { cancel(reason) })
				_, err := b.body(b.do(ctx, request("GET", "http://orders"+phase.path)))
				e := failureOf(b.t, err)
				if e.Kind != kinds.Cancelled || !errors.Is(err, reason) || !errors.Is(err, context.Canceled) || e.Timeout() {
					b.t.Errorf("got %v, want the caller's cancellation with its cause", err)
				}
				if b.elapsed() != time.Second || len(b.events.Attempts()) != 1 {
					b.t.Errorf("after %s and %d attempts, want 1s and 1", b.elapsed(), len(b.events.Attempts()))
				}
				if !phase.inBody && len(b.events.Circuits()) != 0 {
					b.t.Errorf("the breaker moved to %v", b.events.Circuits())
				}
			})
		})
	}
}

func TestCallersDeadlineIsATotalOfTheCaller(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"},`+threeAttempts+`,"circuitBreaker":{"failures":1}`)
	for name, call := range map[string]func(b *bench, x *exchange) error{
		"of the context": func(b *bench, x *exchange) error {
			ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
			defer cancel()
			return b.client.Do(ctx, x.Request, x.Response)
		},
		"DoTimeout": func(b *bench, x *exchange) error {
			return b.client.DoTimeout(b.t.Context(), x.Request, x.Response, 2*time.Second)
		},
		"DoDeadline": func(b *bench, x *exchange) error {
			return b.client.DoDeadline(b.t.Context(), x.Request, x.Response, time.Now().Add(2*time.Second))
		},
		"Request.SetTimeout": func(b *bench, x *exchange) error {
			x.SetTimeout(2 * time.Second)
			return b.client.Do(b.t.Context(), x.Request, x.Response)
		},
		"fasthttp's own DoTimeout": func(b *bench, x *exchange) error {
			return b.client.Fasthttp().DoTimeout(x.Request, x.Response, 2*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, doc, func(b *bench) {
				x := request("GET", "http://orders/hang")
				x.err = call(b, x)
				e := b.failed(x)
				if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || b.elapsed() != 2*time.Second {
					b.t.Errorf("%v of the %s after %s, want TotalTimeout of the caller after 2s", e.Kind, e.Source, b.elapsed())
				}
				if !errors.Is(x.err, fasthttp.ErrTimeout) {
					b.t.Errorf("%v is no fasthttp.ErrTimeout", x.err)
				}
				if b.origin.Requests("/hang") != 1 || len(b.events.Circuits()) != 0 {
					b.t.Error("it was retried, or counted against the peer")
				}
			})
		})
	}
}

func TestATimeoutOfTheCallIsNotLeftOnItsRequest(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		x := request("GET", "http://orders/ok")
		if err := b.client.DoTimeout(b.t.Context(), x.Request, x.Response, time.Second); err != nil || x.GetTimeOut() != 0 {
			b.t.Errorf("%v, and the request has a timeout of %s", err, x.GetTimeOut())
		}
		if err := b.client.DoTimeout(b.t.Context(), x.Request, x.Response, 0); err != error(fasthttp.ErrTimeout) {
			b.t.Errorf("a timeout of nothing: %v", err)
		}
	})
}

func TestTheTighterOfBudgetAndTotalHolds(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"}`)
	for _, c := range []struct {
		name string
		ctx  func(context.Context) context.Context
		ends time.Duration
		by   kinds.Source
	}{
		{"budget of 2s", func(ctx context.Context) context.Context { return deadline.With(ctx, 2*time.Second) }, 2 * time.Second, kinds.SourceBudget},
		{"budget of 20s", func(ctx context.Context) context.Context { return deadline.With(ctx, 20*time.Second) }, 10 * time.Second, kinds.SourcePolicy},
		{"detached", func(ctx context.Context) context.Context {
			return deadline.Detach(deadline.With(ctx, 2*time.Second))
		}, 10 * time.Second, kinds.SourcePolicy},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, doc, func(b *bench) {
				e := b.failed(b.do(c.ctx(b.t.Context()), request("GET", "http://orders/hang")))
				if b.elapsed() != c.ends || e.Source != c.by || e.Kind != kinds.TotalTimeout {
					b.t.Errorf("%v of the %s after %s, want TotalTimeout of the %s after %s", e.Kind, e.Source, b.elapsed(), c.by, c.ends)
				}
			})
		})
	}
}

func TestABudgetHoldsWhereNoPolicyNamesTheHost(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		ctx := deadline.With(b.t.Context(), 2*time.Second)
		e := b.failed(b.do(ctx, request("GET", "http://elsewhere/hang")))
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget || b.elapsed() != 2*time.Second {
			b.t.Errorf("%v of the %s after %s", e.Kind, e.Source, b.elapsed())
		}
	})
}

func TestASpentBudgetCostsNoConnection(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		x := b.do(deadline.With(b.t.Context(), 0), request("GET", "http://orders/ok"))
		e := b.failed(x)
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget || e.Attempts != 0 || b.network.Dials() != 0 {
			b.t.Errorf("%v, %d attempts, %d connections", e, e.Attempts, b.network.Dials())
		}
		if len(b.events.Calls()) != 1 || !errors.Is(x.err, fasthttp.ErrTimeout) {
			b.t.Errorf("%d calls counted, want the refused one; %v", len(b.events.Calls()), x.err)
		}
	})
}

func TestWaitsThatDoNotFitAreNotBegun(t *testing.T) {
	for _, c := range []struct{ name, retry, path string }{
		{"backoff", `"retry":{"maxAttempts":3,"backoff":{"initial":"2s","max":"2s","jitter":"None"}}`, "/status"},
		{"Retry-After in seconds", threeAttempts, "/status?retry_after=2"},
		{"Retry-After beyond 64 bits", threeAttempts, "/status?retry_after=99999999999999999999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, rules(t, `"timeouts":{"total":"1s"},`+c.retry), func(b *bench) {
				x := b.get(c.path)
				b.ok(x, "failed\n")
				if x.StatusCode() != 503 || b.elapsed() != 0 || b.events.Skips() != "deadline" {
					b.t.Errorf("%d after %s, skipped %q, want the 503 at once for the deadline", x.StatusCode(), b.elapsed(), b.events.Skips())
				}
			})
		})
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	inFakeTime(t, rules(t, threeAttempts), func(b *bench) {
		b.ok(b.get("/status?times=1&retry_after=3"), "ok\n")
		if b.elapsed() != 3*time.Second || b.network.Dials() != 1 {
			b.t.Errorf("after %s on %d connections, want 3s on 1: the discarded response is drained", b.elapsed(), b.network.Dials())
		}
	})
}

func TestPostIsNotRepeatedWithoutLeave(t *testing.T) {
	doc := rules(t, `"timeouts":{"responseHeader":"200ms"},`+threeAttempts)
	for _, c := range []struct {
		name     string
		give     func(ctx context.Context, x *exchange) context.Context
		requests int
		skip     kinds.SkipReason
	}{
		{"nothing said", func(ctx context.Context, _ *exchange) context.Context { return ctx }, 1, kinds.SkipMethod},
		{"vouched for", func(ctx context.Context, _ *exchange) context.Context {
			return clientlib.WithCall(ctx, clientlib.Idempotent(true))
		}, 3, kinds.SkipAttempts},
		{"idempotency key", func(ctx context.Context, x *exchange) context.Context {
			x.Request.Header.Set("Idempotency-Key", "1")
			return ctx
		}, 3, kinds.SkipAttempts},
		{"idempotency key in its own spelling", func(ctx context.Context, x *exchange) context.Context {
			x.Request.Header.DisableNormalizing()
			x.Request.Header.Set("idempotency-KEY", "1")
			return ctx
		}, 3, kinds.SkipAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, doc, func(b *bench) {
				x := request("POST", "http://orders/slow", "x")
				e := b.failed(b.do(c.give(b.t.Context(), x), x))
				if e.Kind != kinds.ReadTimeout || e.Skip != c.skip || b.origin.Requests("/slow") != c.requests {
					b.t.Errorf("%v, skip %q, %d requests", e.Kind, e.Skip, b.origin.Requests("/slow"))
				}
			})
		})
	}
}

func TestGetIsNotRepeatedWhenTheCallSiteForbidsIt(t *testing.T) {
	inFakeTime(t, rules(t, threeAttempts), func(b *bench) {
		ctx := clientlib.WithCall(b.t.Context(), clientlib.Idempotent(false))
		x := b.do(ctx, request("GET", "http://orders/status"))
		if x.err != nil || b.origin.Requests("/status") != 1 || b.events.Skips() != "method" {
			b.t.Errorf("%v after %d requests, skipped %q", x.err, b.origin.Requests("/status"), b.events.Skips())
		}
	})
}

func TestRedirectsShareOneDeadlineAndOneBreakerSignal(t *testing.T) {
	both(t, of(`"timeouts":{"total":"1s"},"circuitBreaker":{"failures":1}`), func(b *bench) {
		x := request("GET", "http://orders/redirect?n=3&delay=300ms&to=/hang")
		x.err = b.client.DoRedirects(b.t.Context(), x.Request, x.Response, 5)
		e := b.failed(x)
		if e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second || e.Attempts != 4 {
			b.t.Errorf("%v after %s and %d requests, want TotalTimeout after 1s and 4", e.Kind, b.elapsed(), e.Attempts)
		}
		if len(b.events.Calls()) != 1 || len(b.events.Circuits()) != 1 {
			b.t.Errorf("%d calls and %d breaker changes, want one of each", len(b.events.Calls()), len(b.events.Circuits()))
		}
	})
}

func TestRedirectsAreOneCall(t *testing.T) {
	both(t, of(`"timeouts":{"total":"5s"}`), func(b *bench) {
		x := request("GET", "http://orders/redirect?n=3")
		x.err = b.client.DoRedirects(b.t.Context(), x.Request, x.Response, 5)
		b.ok(x, "ok\n")
		if len(b.events.Calls()) != 1 || b.events.Calls()[0].Attempts != 4 || !b.events.Calls()[0].OK {
			b.t.Errorf("calls: %+v", b.events.Calls())
		}
		if bodies := b.events.Bodies(); len(bodies) != 1 || bodies[0].Status != http.StatusOK || !bodies[0].OK {
			b.t.Errorf("a call has one body, that of its final response: %+v", bodies)
		}
	})
}

func TestARedirectThatIsNotFollowedEndsItsCall(t *testing.T) {
	for name, call := range map[string]func(b *bench, x *exchange) error{
		"Do": func(b *bench, x *exchange) error { return b.client.Do(b.t.Context(), x.Request, x.Response) },
		"too many": func(b *bench, x *exchange) error {
			if err := b.client.DoRedirects(b.t.Context(), x.Request, x.Response, 0); !errors.Is(err, fasthttp.ErrTooManyRedirects) {
				return errors.New("the redirects were not too many")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
				x := request("GET", "http://orders/redirect")
				x.SetTimeout(time.Minute)
				if err := call(b, x); err != nil {
					b.t.Fatal(err)
				}
				if len(b.events.Calls()) != 1 || b.events.Calls()[0].Status != http.StatusTemporaryRedirect || !b.events.Calls()[0].OK {
					b.t.Errorf("calls: %+v", b.events.Calls())
				}
				if bodies := b.events.Bodies(); len(bodies) != 1 || bodies[0].Status != http.StatusTemporaryRedirect {
					b.t.Errorf("bodies: %+v", bodies)
				}
			})
		})
	}
}

func TestAnEventStreamIsNotCutUnlessItsRouteSaysSo(t *testing.T) {
	for _, c := range []struct {
		name, rules string
		ends        time.Duration
		kind        kinds.Kind
		ok          bool
	}{
		{"total ends at the headers", `"timeouts":{"total":"1s"}`, 4 * time.Second, 0, true},
		{"explicit scope Body", `"timeouts":{"total":"1s","scope":"Body"}`, time.Second, kinds.TotalTimeout, false},
		{"idle gap", `"timeouts":{"total":"1s","bodyIdle":"300ms"}`, 300 * time.Millisecond, kinds.ReadTimeout, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTimeWith(t, rules(t, c.rules), streaming(), func(b *bench) {
				_, err := b.body(b.get("/events?n=8&every=500ms"))
				if b.elapsed() != c.ends || (err == nil) != c.ok {
					b.t.Errorf("ended after %s with %v, want %s", b.elapsed(), err, c.ends)
				}
				if !c.ok && failureOf(b.t, err).Kind != c.kind {
					b.t.Errorf("%v, want %v", err, c.kind)
				}
			})
		})
	}
}

func TestABufferedEventStreamIsABodyLikeAnyOther(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		e := b.failed(b.get("/events?n=8&every=500ms"))
		if e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second {
			b.t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

func TestTheLastResponseIsReturnedWhateverItsStatus(t *testing.T) {
	both(t, of(threeAttempts), func(b *bench) {
		x := b.get("/status?code=503")
		text, err := b.body(x)
		if err != nil || x.StatusCode() != 503 || text != "failed\n" || b.origin.Requests("/status") != 3 {
			b.t.Errorf("%d %q, %v after %d requests", x.StatusCode(), text, err, b.origin.Requests("/status"))
		}
		if c := b.events.Calls()[0]; c.OK || c.Kind != kinds.Status || c.Status != 503 || c.Attempts != 3 {
			b.t.Errorf("outcome %+v", c)
		}
		if b.network.Dials() != 1 {
			b.t.Errorf("%d connections, want 1", b.network.Dials())
		}
	})
}

func TestAForgottenBodyIsCutAtTheTotal(t *testing.T) {
	inFakeTimeWith(t, rules(t, `"timeouts":{"total":"1s"}`), streaming(), func(b *bench) {
		x := b.get("/drip?n=1000&every=1s")
		if x.err != nil {
			b.t.Fatal(x.err)
		}
		time.Sleep(time.Second + time.Millisecond) // of the bubble: nobody reads meanwhile
		synctest.Wait()
		if n := b.client.Fasthttp().ConnsCount(); n != 0 || b.timers.Live() != 0 {
			b.t.Errorf("%d connections and %d timers are left", n, b.timers.Live())
		}
		_, err := x.Response.BodyStream().Read(make([]byte, 8))
		if e := failureOf(b.t, err); e.Kind != kinds.TotalTimeout {
			b.t.Errorf("a late read: %v", e)
		}
		if len(b.events.Bodies()) != 1 || b.events.Bodies()[0].Kind != kinds.TotalTimeout {
			b.t.Errorf("bodies: %+v", b.events.Bodies())
		}
	})
}

func TestACallKeepsTheSnapshotThatItBeganWith(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+threeAttempts), func(b *bench) {
		next := rules(t, `"timeouts":{"total":"9s"}`)
		time.AfterFunc(500*time.Millisecond, func() { b.policy.Engine().Swap(next) })
		if e := b.failed(b.get("/hang")); b.elapsed() != time.Second || e.Attempts != 3 {
			b.t.Errorf("%v after %s", e, b.elapsed())
		}
		b.start = time.Now()
		if e := b.failed(b.get("/hang")); b.elapsed() != 9*time.Second || e.Attempts != 1 {
			b.t.Errorf("%v after %s", e, b.elapsed())
		}
	})
}

func TestTheBreakerStaysOpenOverASwap(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"},"circuitBreaker":{"failures":2}`), func(b *bench) {
		b.get("/hang")
		b.get("/hang")
		b.policy.Engine().Swap(rules(t, `"timeouts":{"total":"2s"},"circuitBreaker":{"failures":2}`))
		e := b.failed(b.get("/ok"))
		if e.Kind != kinds.CircuitOpen || e.Attempts != 0 || e.RetryAfter <= 0 || b.origin.Requests("/ok") != 0 {
			b.t.Errorf("%v after %d requests", e, b.origin.Requests("/ok"))
		}
	})
}

func TestShadowMeasuresAndChangesNothing(t *testing.T) {
	const shadow = `"mode":"Shadow","timeouts":{"total":"1s","attempt":"400ms","responseHeader":"300ms","bodyIdle":"200ms"},` + threeAttempts
	both(t, of(shadow), func(b *bench) {
		text, err := b.body(b.get("/drip?n=3&every=500ms"))
		if err != nil || text != "xxx" {
			b.t.Errorf("read %q, %v", text, err)
		}
		_, slow := b.body(b.get("/slow?delay=1500ms"))
		_, failed := b.body(b.get("/status"))
		if slow != nil || failed != nil || b.origin.Requests("/status") != 1 {
			b.t.Errorf("%v, %v after %d requests", slow, failed, b.origin.Requests("/status"))
		}
		would := slices.Sorted(slices.Values(b.events.WouldCut()))
		want := []string{"attempt", "body_idle", "response_header", "retry", "total", "total"}
		if !slices.Equal(would, want) {
			b.t.Errorf("would have cut %q, want %q", would, want)
		}
	})
}

func TestRetryBudgetBoundsRetries(t *testing.T) {
	inFakeTime(t, rules(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms","jitter":"None"},"budget":{"percent":0,"burst":1}}`), func(b *bench) {
		b.get("/status")
		b.get("/status")
		if b.origin.Requests("/status") != 3 || b.events.Skips() != "attempts,budget" {
			b.t.Errorf("%d requests, skipped %q", b.origin.Requests("/status"), b.events.Skips())
		}
	})
}

func TestTheDeadlineHeaderIsStampedOnEachAttempt(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		x := request("GET", "http://orders/hang")
		x.Request.Header.DisableNormalizing()
		x.Request.Header.Set("x-deadline-MS", "99999") // what an earlier service was told
		b.do(b.t.Context(), x)
		var told []string
		for _, h := range b.origin.Headers() {
			told = append(told, strings.Join(h.Values("X-Deadline-Ms"), "+"))
		}
		if want := []string{"980", "570", "150"}; !slices.Equal(told, want) {
			b.t.Errorf("told %q, want %q", told, want)
		}
		if got := string(x.Request.Header.Peek("x-deadline-MS")); got != "99999" {
			b.t.Errorf("the caller's request says %q now", got)
		}
	})
}

func TestRoutesHaveRulesOfTheirOwn(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"},"routes":[{"name":"refunds","match":{"methods":["POST"],"path":"/hang","pathMatch":"Prefix"},"timeouts":{"total":"3s"}}]`)
	inFakeTime(t, doc, func(b *bench) {
		e := b.failed(b.do(b.t.Context(), request("POST", "http://ORDERS:80/hang?q=1", "x")))
		if b.elapsed() != 3*time.Second || e.Kind != kinds.TotalTimeout || b.events.Calls()[0].Route != "refunds" {
			b.t.Errorf("%v after %s on route %q", e, b.elapsed(), b.events.Calls()[0].Route)
		}
		b.start = time.Now()
		if b.failed(b.get("/hang")); b.elapsed() != time.Second {
			b.t.Errorf("the upstream's own total ended after %s", b.elapsed())
		}
	})
}
