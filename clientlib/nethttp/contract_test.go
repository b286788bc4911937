package nethttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// The rows of the engine's table in the contract, in its order.

const threeAttempts = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`

func TestHungServerIsRetriedAndEndsAtTheTotal(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.get("/hang")
		e := failure(b.t, err)
		if b.elapsed() != time.Second || e.Kind != kinds.TotalTimeout || e.Attempts != 3 {
			t.Errorf("after %s: %v with %d attempts, want TotalTimeout at 1s with 3", b.elapsed(), e.Kind, e.Attempts)
		}
		if e.Field != "timeouts.total" || e.Limit != time.Second || e.Source != kinds.SourcePolicy {
			t.Errorf("attributed to %s %s of the %s", e.Field, e.Limit, e.Source)
		}
		if n := b.origin.Requests("/hang"); n != 3 {
			t.Errorf("the server saw %d requests, want 3", n)
		}
		// 400ms + 10ms + 400ms + 20ms leave 170ms.
		if last := b.events.Attempts()[2]; last.Duration != 170*time.Millisecond {
			t.Errorf("the third attempt had %s, want the 170ms that were left", last.Duration)
		}
	})
}

func TestHungServerEndsAfterTheLastCeilingWhenTheTotalIsLong(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"5s","attempt":"400ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.get("/hang")
		e := failure(b.t, err)
		if want := 3*400*time.Millisecond + 30*time.Millisecond; b.elapsed() != want {
			t.Errorf("ended after %s, want %s", b.elapsed(), want)
		}
		if e.Kind != kinds.AttemptTimeout || e.Skip != kinds.SkipAttempts || e.Field != "timeouts.attempt" {
			t.Errorf("got %v (%s, %s), want AttemptTimeout, attempts, timeouts.attempt", e.Kind, e.Skip, e.Field)
		}
	})
}

func TestTotalCoversABodyThatDrips(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"}`)
	inFakeTime(t, doc, func(b *bench) {
		resp := b.mustGet("/drip?n=8&every=400ms")
		text, err := readAll(b.t, resp)
		e := failure(b.t, err)
		if b.elapsed() != time.Second || e.Kind != kinds.TotalTimeout {
			t.Errorf("the read failed after %s with %v, want 1s and TotalTimeout", b.elapsed(), e.Kind)
		}
		if text != "xx" {
			t.Errorf("read %q before, want the two bytes that had come", text)
		}
		synctest.Wait()
		if resp2 := b.mustGet("/ok"); resp2 != nil {
			_, _ = readAll(b.t, resp2)
		}
		if n := b.network.Dials(); n != 2 {
			t.Errorf("%d connections, want 2: the cut one must not be used again", n)
		}
	})
}

func TestScopeHeadersLetsTheBodyTakeItsTime(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","scope":"Headers"}`)
	inFakeTime(t, doc, func(b *bench) {
		text, err := readAll(b.t, b.mustGet("/drip?n=8&every=500ms"))
		if err != nil || text != "xxxxxxxx" || b.elapsed() != 4*time.Second {
			t.Errorf("read %q, %v after %s, want 8 bytes after 4s", text, err, b.elapsed())
		}
	})
}

func TestResponseHeaderLimitIsAReadTimeoutOfTheLibrarysFamily(t *testing.T) {
	doc := rules(t, `"timeouts":{"responseHeader":"200ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.get("/slow?delay=1s")
		e := failure(b.t, err)
		if e.Kind != kinds.ReadTimeout || e.Attempts != 3 || b.origin.Requests("/slow") != 3 {
			t.Errorf("%v after %d attempts, want ReadTimeout after 3", e.Kind, e.Attempts)
		}
		var family *url.Error
		if !errors.As(err, &family) || !family.Timeout() {
			t.Errorf("%T is not a *url.Error that timed out", err)
		}
		var netErr net.Error
		if !errors.As(err, &netErr) || !netErr.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not a timeout in net's and context's sense", err)
		}
		if strings.Contains(e.Error(), "total") {
			t.Errorf("%q speaks of a total", e)
		}
	})
}

func TestCallersCancellationIsTheCallersOwn(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s","attempt":"5s"},`+threeAttempts+`,"circuitBreaker":{"failures":1}`)
	reason := errors.New("the shop is closing")
	for _, phase := range []struct {
		name   string
		path   string
		inBody bool
	}{{"before the headers", "/hang", false}, {"in the backoff", "/status?retry_after=2", false}, {"in the body", "/drip", true}} {
		t.Run(phase.name, func(t *testing.T) {
			inFakeTime(t, doc, func(b *bench) {
				ctx, cancel := context.WithCancelCause(b.t.Context())
				time.AfterFunc(time.Second, func() { cancel(reason) })
				resp, err := b.http.Do(b.request(ctx, http.MethodGet, phase.path, nil))
				if phase.inBody {
					_, err = readAll(b.t, resp)
				}
				e := failure(b.t, err)
				if e.Kind != kinds.Cancelled || !errors.Is(err, reason) || !errors.Is(err, context.Canceled) || e.Timeout() {
					t.Errorf("got %v, want the caller's cancellation with its cause", err)
				}
				if b.elapsed() != time.Second || len(b.events.Attempts()) != 1 {
					t.Errorf("after %s and %d attempts, want 1s and 1", b.elapsed(), len(b.events.Attempts()))
				}
				if !phase.inBody && len(b.events.Circuits()) != 0 {
					t.Errorf("the breaker moved to %v", b.events.Circuits())
				}
			})
		})
	}
}

func TestCallersDeadlineIsATotalOfTheCaller(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"},`+threeAttempts+`,"circuitBreaker":{"failures":1}`)
	inFakeTime(t, doc, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
		defer cancel()
		_, err := b.http.Do(b.request(ctx, http.MethodGet, "/hang", nil))
		e := failure(b.t, err)
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || b.elapsed() != 2*time.Second {
			t.Errorf("%v of the %s after %s, want TotalTimeout of the caller after 2s", e.Kind, e.Source, b.elapsed())
		}
		if b.origin.Requests("/hang") != 1 || len(b.events.Circuits()) != 0 {
			t.Error("it was retried, or counted against the peer")
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
				_, err := b.http.Do(b.request(c.ctx(b.t.Context()), http.MethodGet, "/hang", nil))
				if e := failure(b.t, err); b.elapsed() != c.ends || e.Source != c.by || e.Kind != kinds.TotalTimeout {
					t.Errorf("%v of the %s after %s, want TotalTimeout of the %s after %s", e.Kind, e.Source, b.elapsed(), c.by, c.ends)
				}
			})
		})
	}
}

func TestASpentBudgetCostsNoConnection(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"10s"}`), func(b *bench) {
		_, err := b.http.Do(b.request(deadline.With(b.t.Context(), 0), http.MethodGet, "/ok", nil))
		e := failure(b.t, err)
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget || e.Attempts != 0 || b.network.Dials() != 0 {
			t.Errorf("%v, %d attempts, %d connections", e, e.Attempts, b.network.Dials())
		}
		if len(b.events.Calls()) != 1 {
			t.Errorf("%d calls counted, want the refused one", len(b.events.Calls()))
		}
	})
}

func TestWaitsThatDoNotFitAreNotBegun(t *testing.T) {
	for _, c := range []struct{ name, retry, path string }{
		{"backoff", `"retry":{"maxAttempts":3,"backoff":{"initial":"2s","max":"2s","jitter":"None"}}`, "/status"},
		{"Retry-After in seconds", threeAttempts, "/status?retry_after=2"},
		{"Retry-After of a year", threeAttempts, "/status?retry_after=31536000"},
		{"Retry-After beyond 64 bits", threeAttempts, "/status?retry_after=99999999999999999999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, rules(t, `"timeouts":{"total":"1s"},`+c.retry), func(b *bench) {
				resp := b.mustGet(c.path)
				if resp.StatusCode != 503 || b.elapsed() != 0 || b.events.Skips() != "deadline" {
					t.Errorf("%d after %s, skipped %q, want the 503 at once for the deadline", resp.StatusCode, b.elapsed(), b.events.Skips())
				}
				_, _ = readAll(b.t, resp)
			})
		})
	}
}

func TestPostIsNotRepeatedWithoutLeave(t *testing.T) {
	doc := rules(t, `"timeouts":{"responseHeader":"200ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.http.Do(b.request(b.t.Context(), http.MethodPost, "/slow", strings.NewReader("x")))
		if e := failure(b.t, err); e.Kind != kinds.ReadTimeout || e.Skip != kinds.SkipMethod || b.origin.Requests("/slow") != 1 {
			t.Errorf("%v, skip %q, %d requests", e.Kind, e.Skip, b.origin.Requests("/slow"))
		}
	})
}

func TestABodyThatCannotBeRewoundIsNotSentTwice(t *testing.T) {
	doc := rules(t, `"timeouts":{"responseHeader":"200ms"},"retry":{"maxAttempts":3,"maxReplayBytes":4}`)
	inFakeTime(t, doc, func(b *bench) {
		body := struct{ io.Reader }{strings.NewReader("longer than four")}
		_, err := b.http.Do(b.request(b.t.Context(), http.MethodPut, "/slow", body))
		if e := failure(b.t, err); e.Skip != kinds.SkipNonReplayable || b.origin.Requests("/slow") != 1 {
			t.Errorf("skip %q after %d requests, want non_replayable after 1", e.Skip, b.origin.Requests("/slow"))
		}
	})
}

func TestABodyWithoutGetBodyIsReplayedFromABoundedCopy(t *testing.T) {
	doc := rules(t, threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		var bodies []string
		inner := b.http.Transport
		_ = inner
		body := struct{ io.Reader }{strings.NewReader("payload")}
		resp, err := b.http.Do(b.request(b.t.Context(), http.MethodPut, "/status?times=2", body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := readAll(b.t, resp)
		if text != "ok\n" || b.origin.Requests("/status") != 3 {
			t.Errorf("got %q after %d requests (%v)", text, b.origin.Requests("/status"), bodies)
		}
	})
}

func TestRedirectsShareOneDeadlineAndOneBreakerSignal(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"},"circuitBreaker":{"failures":1}`)
	inFakeTime(t, doc, func(b *bench) {
		_, err := b.get("/redirect?n=3&delay=300ms&to=/hang")
		e := failure(b.t, err)
		if e.Kind != kinds.TotalTimeout || b.elapsed() != time.Second || e.Attempts != 4 {
			t.Errorf("%v after %s and %d requests, want TotalTimeout after 1s and 4", e.Kind, b.elapsed(), e.Attempts)
		}
		if len(b.events.Calls()) != 1 || len(b.events.Circuits()) != 1 {
			t.Errorf("%d calls and %d breaker changes, want one of each", len(b.events.Calls()), len(b.events.Circuits()))
		}
	})
}

func TestARedirectNobodyFollowsIsACallOfItsOwn(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		_, _ = readAll(b.t, b.mustGet("/redirect"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(b.events.Calls()) != 1 || b.events.Calls()[0].Status != http.StatusTemporaryRedirect || !b.events.Calls()[0].OK {
			t.Errorf("calls: %+v", b.events.Calls())
		}
	})
}

// A call has one body, that of its final response: of a redirect that was followed
// nothing is told, of one that nobody follows after the call was.
func TestACallHasTheBodyOfItsFinalResponse(t *testing.T) {
	last := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, c := range []struct {
		name, path string
		check      func(*http.Request, []*http.Request) error
		open       time.Duration // how long the caller keeps the body
		status     int
	}{
		{"three redirects", "/redirect?n=3&delay=10ms&to=/ok", nil, 0, http.StatusOK},
		{"nobody follows", "/redirect", last, 0, http.StatusTemporaryRedirect},
		{"nobody follows, read late", "/redirect", last, 40 * time.Second, http.StatusTemporaryRedirect},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, rules(t, `"timeouts":{"total":"1m"}`), func(b *bench) {
				b.http.CheckRedirect = c.check
				resp := b.mustGet(c.path)
				time.Sleep(c.open)
				_, _ = readAll(b.t, resp)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				bodies := b.events.Bodies()
				if len(bodies) != 1 || bodies[0].Status != c.status || bodies[0].Duration != c.open || !bodies[0].OK {
					t.Errorf("bodies: %+v", bodies)
				}
				if n := len(b.events.Calls()); n != 1 {
					t.Errorf("%d calls", n)
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
			inFakeTime(t, rules(t, c.rules), func(b *bench) {
				_, err := readAll(b.t, b.mustGet("/events?n=8&every=500ms"))
				if b.elapsed() != c.ends || (err == nil) != c.ok {
					t.Errorf("ended after %s with %v, want %s", b.elapsed(), err, c.ends)
				}
				if !c.ok {
					if e := failure(b.t, err); e.Kind != c.kind {
						t.Errorf("kind %v, want %v", e.Kind, c.kind)
					}
				}
			})
		})
	}
}

func TestTheLastResponseIsNeverTurnedIntoAnError(t *testing.T) {
	inFakeTime(t, rules(t, threeAttempts), func(b *bench) {
		resp := b.mustGet("/status")
		text, err := readAll(b.t, resp)
		if resp.StatusCode != 503 || text != "failed\n" || err != nil || b.origin.Requests("/status") != 3 {
			t.Errorf("%d %q %v after %d requests", resp.StatusCode, text, err, b.origin.Requests("/status"))
		}
		if call := b.events.Calls()[0]; call.OK || call.Kind != kinds.Status || call.Status != 503 || call.Skip != kinds.SkipAttempts {
			t.Errorf("counted as %+v", call)
		}
		if b.network.Dials() != 1 {
			t.Errorf("%d connections, want 1: discarded responses are drained", b.network.Dials())
		}
	})
}

func TestABodyNobodyClosesEndsWithTheTotal(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"1s"}`), func(b *bench) {
		_ = b.mustGet("/drip?n=1000&every=1s")
		time.Sleep(1001 * time.Millisecond)
		// The bubble ends with a failure when a goroutine of the connection is
		// still there.
	})
}

func TestASwapDoesNotTouchACallUnderWay(t *testing.T) {
	inFakeTime(t, rules(t, `"timeouts":{"total":"3s"}`), func(b *bench) {
		time.AfterFunc(time.Second, func() { b.client.Engine().Swap(rules(t, `"timeouts":{"total":"1s"}`)) })
		_, err := b.get("/hang")
		if failure(b.t, err); b.elapsed() != 3*time.Second {
			t.Errorf("the call under way ended after %s, want its own 3s", b.elapsed())
		}
		b.start = time.Now()
		_, err = b.get("/hang")
		if failure(b.t, err); b.elapsed() != time.Second {
			t.Errorf("the next call ended after %s, want the new 1s", b.elapsed())
		}
	})
}

func TestShadowChangesNothingAndCounts(t *testing.T) {
	doc := rules(t, `"mode":"Shadow","timeouts":{"total":"1s","attempt":"400ms","responseHeader":"300ms","bodyIdle":"100ms"},`+threeAttempts)
	inFakeTime(t, doc, func(b *bench) {
		_, _ = readAll(b.t, b.mustGet("/slow?delay=2s"))
		_, _ = readAll(b.t, b.mustGet("/drip?n=4&every=500ms"))
		_, _ = readAll(b.t, b.mustGet("/status"))
		if b.elapsed() != 4*time.Second || b.origin.Requests("/status") != 1 {
			t.Errorf("took %s and %d requests: something was cut or repeated", b.elapsed(), b.origin.Requests("/status"))
		}
		got := strings.Join(b.events.WouldCut(), " ")
		if want := "response_header attempt total body_idle total retry"; got != want {
			t.Errorf("would have: %s, want: %s", got, want)
		}
	})
}

func TestAnOpenCircuitRefusesAndSaysWhenToAsk(t *testing.T) {
	doc := rules(t, `"circuitBreaker":{"failures":2,"recovery":"10s"}`)
	inFakeTime(t, doc, func(b *bench) {
		for range 2 {
			_, _ = readAll(b.t, b.mustGet("/status"))
		}
		time.Sleep(4 * time.Second)
		_, err := b.get("/ok")
		e := failure(b.t, err)
		if e.Kind != kinds.CircuitOpen || e.RetryAfter != 6*time.Second || e.Attempts != 0 {
			t.Errorf("got %v with retry after %s, want CircuitOpen with 6s", e.Kind, e.RetryAfter)
		}
		time.Sleep(6 * time.Second)
		_, _ = readAll(b.t, b.mustGet("/ok"))
		_, _ = readAll(b.t, b.mustGet("/ok"))
		want := []engine.CircuitState{engine.CircuitOpened, engine.CircuitHalfOpen, engine.CircuitClosed}
		if !slices.Equal(b.events.Circuits(), want) {
			t.Errorf("circuit went %v, want %v", b.events.Circuits(), want)
		}
	})
}

func TestAnUpgradeStaysAConnection(t *testing.T) {
	upgrade := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	for _, c := range []struct {
		name, rules string
		cut         time.Duration
	}{
		{"not cut", `"timeouts":{"total":"1s","attempt":"500ms"}`, 0},
		{"cut by an explicit scope", `"timeouts":{"total":"3s","scope":"Body"}`, 3 * time.Second},
		{"cut by the idle gap", `"timeouts":{"bodyIdle":"1s"}`, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTimeWith(t, rules(t, c.rules), upgrade, func(b *bench) {
				req := b.request(b.t.Context(), http.MethodGet, "/", nil)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "echo")
				resp, err := b.http.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				conn, ok := resp.Body.(io.ReadWriteCloser)
				if !ok {
					t.Fatalf("the body is a %T, not an io.ReadWriteCloser", resp.Body)
				}
				time.Sleep(2 * time.Second)
				echo := make([]byte, 4)
				if _, err := conn.Write([]byte("ping")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(conn, echo); err != nil || !bytes.Equal(echo, []byte("ping")) {
					t.Fatalf("echo %q, %v", echo, err)
				}
				if c.cut > 0 {
					if _, err := conn.Read(echo); err == nil || b.elapsed() != c.cut {
						t.Errorf("read ended after %s with %v, want %s", b.elapsed(), err, c.cut)
					} else {
						failure(b.t, err)
					}
				}
				_ = conn.Close()
			})
		})
	}
}
