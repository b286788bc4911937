package kubesource

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

func empty(*fakeAPI) {}

// with prepares a document for the client checkout.
func with(t *testing.T, client string) func(*fakeAPI) {
	return func(f *fakeAPI) { f.put("timeouts-checkout", docFor(t, client)) }
}

func TestTheConfigMapOfTheClientComesFirst(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		if origin := h.last().Origin; origin != "ConfigMap shop/timeouts-checkout" {
			t.Errorf("origin %q", origin)
		}
		f.put("timeouts", docFor(t, "all"))
		advance(time.Millisecond)
		h.wantUpdates(1)

		f.put("timeouts-checkout", rendered(t, &document.Document{Namespace: "shop", Client: "checkout", Tombstone: true}))
		advance(time.Millisecond)
		h.want("all", source.ReasonNone, source.DeliveryWatch)
		f.put("timeouts", rendered(t, &document.Document{Namespace: "shop", Tombstone: true}))
		advance(time.Millisecond)
		h.want("tombstone", source.ReasonNone, source.DeliveryWatch)
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(time.Millisecond)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		h.wantUpdates(4)
	})
}

func TestWithoutAConfigMapItSaysSoAndWaits(t *testing.T) {
	withFake(t, empty, func(t *testing.T, f *fakeAPI, h *heard) {
		h.wantUpdates(1)
		h.want("", source.ReasonNoDocument, source.DeliveryWatch)
		if m := h.last().Message(); !strings.Contains(m, "ConfigMap shop/timeouts-checkout") || !strings.Contains(m, "ConfigMap shop/timeouts ") {
			t.Errorf("the message %q does not name both ConfigMaps", m)
		}
		f.put("timeouts", docFor(t, "all"))
		advance(time.Millisecond)
		h.want("all", source.ReasonNone, source.DeliveryWatch)
	})
}

// A ConfigMap that is deleted, emptied or broken takes no policy away.
func TestTheLastGoodDocumentStays(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for _, c := range []struct {
			name   string
			break_ func()
			reason source.Reason
			words  string
		}{
			{"deleted", func() { f.delete("timeouts-checkout") }, source.ReasonSourceGone, "was deleted"},
			{"another key", func() { f.putKeys("timeouts-checkout", map[string]string{"policy.yaml": "x"}) }, source.ReasonSourceGone, "no key policy.json, but policy.yaml"},
			{"no key", func() { f.putKeys("timeouts-checkout", nil) }, source.ReasonSourceGone, "no key policy.json"},
			{"empty", func() { f.put("timeouts-checkout", "") }, source.ReasonInvalidUpdate, "empty"},
			{"no JSON", func() { f.put("timeouts-checkout", "hello") }, source.ReasonInvalidUpdate, "NotJSON"},
			{"too large", func() { f.put("timeouts-checkout", strings.Repeat(" ", document.MaxBytes+100)) }, source.ReasonInvalidUpdate, "TooLarge"},
		} {
			c.break_()
			advance(time.Millisecond)
			h.want("a", c.reason, source.DeliveryWatch)
			if m := h.last().Message(); !strings.Contains(m, c.words) {
				t.Errorf("%s: the message %q has no %q", c.name, m, c.words)
			}
			f.put("timeouts-checkout", docFor(t, "a"))
			advance(time.Millisecond)
			h.want("a", source.ReasonNone, source.DeliveryWatch)
		}
	})
}

func TestAWatchGoesOnWhereTheLastOneEnded(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for range 20 {
			advance(time.Minute)
			f.endWatches(nil)
		}
		advance(maxSpread)
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(time.Millisecond)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		h.wantUpdates(2)
		// Two lists at the start, and the plain reads.
		if reads := 2 * int(20*time.Minute/(DefaultCheck*4/5)); f.lists.Load() > int64(2+reads) {
			t.Errorf("%d lists", f.lists.Load())
		}
	})
}

// The server has forgotten the version that the watch would go on with: at its
// start, and in the middle.
func TestAForgottenVersionIsListedAnew(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Minute)
		f.endWatches(nil)
		f.set(func() { f.version += 100; f.forgets = f.version })
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(maxSpread + time.Second)
		h.want("b", source.ReasonNone, source.DeliveryWatch)

		advance(time.Minute)
		f.set(func() { f.deaf = true })
		f.endWatches(gone())
		advance(maxSpread + time.Second)
		f.put("timeouts-checkout", docFor(t, "c"))
		f.endWatches(gone())
		advance(maxSpread + time.Second)
		h.want("c", source.ReasonNone, source.DeliveryWatch)
		h.wantUpdates(3)
	})
}

// A server that says 410 to whatever it just said is not asked in a loop.
func TestForgettingWithoutEndIsAFailure(t *testing.T) {
	withFake(t, func(f *fakeAPI) { with(t, "a")(f); f.forgets = 1 << 40 }, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Hour)
		if f.lists.Load() > 2*2*60*4 {
			t.Errorf("%d lists in an hour", f.lists.Load())
		}
		// Lists succeed, so changes arrive all the same.
		h.want("a", source.ReasonWatchUnavailable, source.DeliveryPoll)
	})
}

func TestAnOutageIsToldOnceAndEnds(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Minute)
		f.kill()
		advance(defaultGrace - time.Second)
		h.wantUpdates(1)
		f.dials.Store(0)
		advance(time.Hour)
		h.want("a", source.ReasonUnreachable, source.DeliveryWatch)
		h.wantUpdates(2)
		if most := 2 * int(time.Hour/(DefaultMaxBackoff/2)); f.dials.Load() > int64(most) {
			t.Errorf("%d dials in an hour, want at most %d", f.dials.Load(), most)
		}
		if age := time.Since(h.last().Check.Last()); age < time.Hour {
			t.Errorf("after an hour without a server the check is %s old", age)
		}
		f.put("timeouts-checkout", docFor(t, "b"))
		f.set(func() { f.down = false })
		advance(DefaultMaxBackoff + time.Second)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		if age := time.Since(h.last().Check.Last()); age > DefaultMaxBackoff+time.Second {
			t.Errorf("after the outage the check is %s old", age)
		}
	})
}

func TestARestartOfTheServerIsNoNews(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Minute)
		f.kill()
		advance(2 * time.Second)
		// One that starts refuses what it cannot judge yet.
		f.set(func() { f.down, f.refuse = false, func(bool) *metav1.Status { return forbidden() } })
		advance(time.Second)
		f.set(func() { f.refuse = nil })
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(DefaultMaxBackoff)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		h.wantUpdates(2)
	})
	// A slow one is asked again soon all the same.
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Minute)
		f.kill()
		advance(time.Minute)
		f.set(func() { f.down, f.refuse = false, func(bool) *metav1.Status { return forbidden() } })
		advance(startUp - DefaultMaxBackoff)
		f.set(func() { f.refuse = nil })
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(DefaultMaxBackoff)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
	})
}

// A server that is back before anybody notices that it was away refuses what it
// cannot judge yet, and is not taken for one that means it.
func TestARefusalAfterAShortRestartIsAskedAboutSoon(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for range 20 {
			advance(2 * time.Minute)
			f.set(func() { f.refuse = func(bool) *metav1.Status { return forbidden() } })
			f.endWatches(nil)
			advance(20 * time.Second)
			f.set(func() { f.refuse = nil })
			advance(briefBackoff + time.Second)
			h.want("a", source.ReasonNone, source.DeliveryWatch)
		}
	})
}

// Rights are missing from the start, are given, withdrawn and given back.
//
// Case R29.
func TestARefusalIsToldOnceAndAskedAboutSlowly(t *testing.T) {
	refuse := func(f *fakeAPI) { f.refuse = func(bool) *metav1.Status { return forbidden() } }
	withFake(t, func(f *fakeAPI) { with(t, "a")(f); refuse(f) }, func(t *testing.T, f *fakeAPI, h *heard) {
		h.want("", source.ReasonForbidden, source.DeliveryWatch)
		if m := h.last().Message(); !strings.Contains(m, "User cannot") || !strings.Contains(m, "list and watch") {
			t.Errorf("the message %q names neither cause nor mend", m)
		}
		advance(time.Hour)
		h.wantUpdates(1)
		if most := 2 * (10 + int(time.Hour/(DefaultMaxDeniedBackoff/2))); f.lists.Load() > int64(most) {
			t.Errorf("%d requests in an hour, want at most %d", f.lists.Load(), most)
		}
		f.set(func() { f.refuse = nil })
		advance(DefaultMaxDeniedBackoff + time.Second)
		h.want("a", source.ReasonNone, source.DeliveryWatch)

		f.set(func() { refuse(f) })
		advance(time.Minute)
		h.want("a", source.ReasonNone, source.DeliveryWatch) // the watch goes on
		f.endWatches(nil)
		advance(3 * defaultGrace)
		h.want("a", source.ReasonForbidden, source.DeliveryWatch)
		told := len(h.updates())
		advance(time.Hour)
		h.wantUpdates(told)
		f.put("timeouts-checkout", docFor(t, "b"))
		f.set(func() { f.refuse = nil })
		advance(DefaultMaxDeniedBackoff + time.Second)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
	})
}

// The places take turns while both are refused, and rights that one of them
// notices wake the other.
//
// Case R29.
func TestRightsThatWereMissingForLongAreNoticedInHalfTheTime(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for round := range 20 {
			f.set(func() { f.refuse = func(bool) *metav1.Status { return forbidden() } })
			f.endWatches(nil)
			advance(10 * time.Minute)
			h.want("a", source.ReasonForbidden, source.DeliveryWatch)
			before := f.lists.Load()
			advance(time.Hour)
			// A place each 45 s on average, as if each were on its own.
			if n := int(f.lists.Load() - before); n < 120 || n > 200 {
				t.Errorf("round %d: %d requests in an hour", round, n)
			}
			before = f.lists.Load()
			f.set(func() { f.refuse = nil })
			advance(DefaultMaxDeniedBackoff/2 + time.Millisecond)
			h.want("a", source.ReasonNone, source.DeliveryWatch)
			if n := f.lists.Load() - before; n != 2 {
				t.Errorf("round %d: %d lists once the rights were there, want one of each place", round, n)
			}
			advance(time.Minute)
		}
	})
}

// Rights for one place only do not make the other one ask more often.
func TestAPlaceThatStaysRefusedAsksSlowly(t *testing.T) {
	refuse := func(names ...string) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			for _, name := range names {
				if r.URL.Query().Get("fieldSelector") == "metadata.name="+name {
					respond(w, http.StatusForbidden, forbidden())
					return true
				}
			}
			return false
		}
	}
	prepare := func(f *fakeAPI) { with(t, "a")(f); f.answer = refuse("timeouts", "timeouts-checkout") }
	withFake(t, prepare, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(10 * time.Minute)
		f.set(func() { f.answer = refuse("timeouts") })
		advance(DefaultMaxDeniedBackoff + time.Second)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		before := f.lists.Load()
		advance(time.Hour)
		reads := int(time.Hour / (DefaultCheck * 4 / 5))
		if n := int(f.lists.Load() - before); n < 60 || n > 120+reads {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// Where only the watch is refused, or cut by something in between, lists deliver
// changes.
//
// Case R29.
func TestWithoutAWatchItPolls(t *testing.T) {
	cut := func(f *fakeAPI) func() {
		return func() {
			f.refuse = func(watch bool) *metav1.Status {
				if watch {
					return forbidden()
				}
				return nil
			}
		}
	}
	withFake(t, func(f *fakeAPI) { with(t, "a")(f); cut(f)() }, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(3 * defaultGrace)
		h.want("a", source.ReasonWatchUnavailable, source.DeliveryPoll)
		if u := h.last(); u.Err != nil || !strings.Contains(u.Message(), "User cannot") {
			t.Errorf("want a warning, got %s", describe(u))
		}
		told := len(h.updates())
		advance(time.Hour)
		h.wantUpdates(told)
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(DefaultMaxDeniedBackoff + time.Second)
		h.want("b", source.ReasonWatchUnavailable, source.DeliveryPoll)
		if most := 2 * (20 + 2*int(time.Hour/DefaultMaxDeniedBackoff)); f.lists.Load() > int64(most) {
			t.Errorf("%d lists in an hour, want at most %d", f.lists.Load(), most)
		}
		f.set(func() { f.refuse = nil })
		advance(DefaultMaxDeniedBackoff + 2*proof)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
	})
}

// The stream is open and delivers nothing: no event, no bookmark, no end.
//
// Case R27.
func TestASilentStallIsFoundByThePlainRead(t *testing.T) {
	withFake(t, func(f *fakeAPI) { with(t, "a")(f); f.deaf = true }, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(time.Second)
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(DefaultCheck * 4 / 5 / 2)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		if age := time.Since(h.last().Check.Last()); age < time.Minute {
			t.Errorf("the check is %s old: the stall cannot be seen", age)
		}
		advance(DefaultCheck)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		if f.accepted.Load() < 3 {
			t.Errorf("%d watches: the stalled one was not replaced", f.accepted.Load())
		}
		// Nothing changes: the reads agree, and the watches stay.
		advance(10 * DefaultCheck)
		if age := time.Since(h.last().Check.Last()); age > DefaultCheck*6/5 {
			t.Errorf("the check is %s old", age)
		}
		h.wantUpdates(2)
	})
}

// A watch that something cuts leaves the other one alone, on whose connection it
// was.
func TestAWatchThatFailsEndsNoOther(t *testing.T) {
	withFake(t, func(f *fakeAPI) { with(t, "a")(f); f.cut = "timeouts" }, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(watchMin - time.Second)
		f.set(func() {
			if n := f.watched["timeouts-checkout"]; n != 1 {
				t.Errorf("%d watches of the client's ConfigMap, want the one", n)
			}
			if n := f.watched["timeouts"]; n < 5 || n > 40 {
				t.Errorf("%d watches of the other one", n)
			}
		})
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(time.Millisecond)
		if u := h.last(); clientOf(u) != "b" {
			t.Errorf("it said %s", describe(u))
		}
	})
}

// However often the server comes and goes, refuses and cuts, what the source holds
// stays level.
func TestConnectionsDoNotPileUp(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for i := range 300 {
			switch i % 4 {
			case 0:
				f.kill()
				advance(3 * time.Second)
				f.set(func() { f.down = false })
			case 1:
				f.set(func() { f.refuse = func(bool) *metav1.Status { return forbidden() } })
				f.endWatches(nil)
				advance(5 * time.Second)
				f.set(func() { f.refuse = nil })
			case 2:
				f.endWatches(gone())
			case 3:
				f.endWatches(nil)
			}
			advance(10 * time.Second)
			if n := f.alive.Load(); n > 8 {
				t.Fatalf("round %d: %d connections", i, n)
			}
		}
		advance(10 * time.Minute)
		// Two watches; HTTP/1 has a connection for each.
		if n := f.alive.Load(); n > 4 {
			t.Errorf("in the end there are %d connections", n)
		}
		h.stop()
		if n := f.alive.Load(); n != 0 {
			t.Errorf("after the end of the source there are %d connections", n)
		}
	})
}

// A server that fails in another way each time does not fill the log.
func TestAFailureThatAlternatesIsToldNowAndThen(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		code := int32(500)
		f.set(func() {
			f.refuse = func(bool) *metav1.Status {
				code = 500 + (code-499)%7
				return status(code, metav1.StatusReasonInternalError, fmt.Sprintf("failure %d", code))
			}
		})
		f.endWatches(nil)
		advance(time.Hour)
		h.want("a", source.ReasonUnreachable, source.DeliveryWatch)
		if n := len(h.updates()); n < 5 || n > 5+int(time.Hour/retellAfter) {
			t.Errorf("%d updates in an hour", n)
		}
		f.set(func() { f.refuse = nil })
		advance(DefaultMaxBackoff + proof)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
	})
}

// The file with the token is gone while the server takes the old one no more; the
// next token is used soon after it is there, whatever the back-off.
func TestATokenThatAppearsIsUsedSoon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, _ *heard) {
		must(t, os.WriteFile(file, []byte("old"), 0o600))
		config := f.config()
		config.BearerToken, config.BearerTokenFile = "old", file
		h := listen(t, New("checkout", WithConfig(config), WithNamespace("shop")))
		advance(time.Millisecond)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		must(t, os.Remove(file))
		f.set(func() {
			f.answer = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
				if r.Header.Get("Authorization") == "Bearer new" {
					return false
				}
				respond(w, http.StatusUnauthorized, status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no"))
				return true
			}
		})
		f.endWatches(nil)
		advance(10 * time.Minute)
		h.want("a", source.ReasonForbidden, source.DeliveryWatch)
		must(t, os.WriteFile(file, []byte("new"), 0o600))
		advance(tokenLook + 2*proof)
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		h.stop()
	})
}

// Rights for the ConfigMap of the client alone are enough once it is there: the
// other one is no part of what is in force, and none of what has to be sure.
func TestAPlaceBehindTheOneInForceMayBeForbidden(t *testing.T) {
	prepare := func(f *fakeAPI) {
		with(t, "a")(f)
		f.answer = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			if r.URL.Query().Get("fieldSelector") != "metadata.name=timeouts" {
				return false
			}
			respond(w, http.StatusForbidden, forbidden())
			return true
		}
	}
	withFake(t, prepare, func(t *testing.T, f *fakeAPI, h *heard) {
		h.want("a", source.ReasonNone, source.DeliveryWatch)
		advance(time.Hour)
		f.bookmark()
		advance(time.Millisecond)
		if age := time.Since(h.last().Check.Last()); age > time.Second {
			t.Errorf("after a bookmark the check is %s old", age)
		}
		h.wantUpdates(1)
		f.put("timeouts-checkout", rendered(t, &document.Document{Namespace: "shop", Client: "checkout", Tombstone: true}))
		advance(time.Hour)
		h.want("tombstone", source.ReasonForbidden, source.DeliveryWatch)
		if age := time.Since(h.last().Check.Last()); age < time.Hour {
			t.Errorf("the ConfigMap that counts is forbidden, and the check is %s old", age)
		}
	})
}

// Bookmarks are signs of life.
func TestBookmarksRenewTheCheck(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		advance(2 * time.Minute)
		f.bookmark()
		advance(time.Millisecond)
		if age := time.Since(h.last().Check.Last()); age > time.Second {
			t.Errorf("after a bookmark the check is %s old", age)
		}
		h.wantUpdates(1)
	})
}

func TestAPlainReadThatFailsLeavesTheWatchAlone(t *testing.T) {
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		f.set(func() {
			f.refuse = func(watch bool) *metav1.Status {
				if watch {
					return nil
				}
				return status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too busy")
			}
		})
		advance(watchMin - time.Second)
		f.put("timeouts-checkout", docFor(t, "b"))
		advance(time.Millisecond)
		h.want("b", source.ReasonNone, source.DeliveryWatch)
		if f.accepted.Load() != 2 {
			t.Errorf("%d watches, want the 2 from the start", f.accepted.Load())
		}
	})
}

func TestAServerThatDoesNotAnswerIsToldOfSoon(t *testing.T) {
	withFake(t, func(f *fakeAPI) { f.swallow = true }, func(t *testing.T, f *fakeAPI, h *heard) {
		h.wantUpdates(0)
		advance(firstLook)
		h.want("", source.ReasonUnreachable, source.DeliveryWatch)
		f.set(func() { f.swallow = false })
		f.put("timeouts", docFor(t, "all"))
		advance(requestTimeout + DefaultMaxBackoff)
		h.want("all", source.ReasonNone, source.DeliveryWatch)
	})
}

// Whatever stands in for an API server, memory is bounded.
func TestAnAnswerWithoutEndIsNotRead(t *testing.T) {
	withFake(t, func(f *fakeAPI) { f.endless = true }, func(t *testing.T, f *fakeAPI, h *heard) {
		advance(firstLook)
		h.want("", source.ReasonUnreachable, source.DeliveryWatch)
		if m := h.last().Message(); !strings.Contains(m, "more than 8 MiB") {
			t.Errorf("the message is %q", m)
		}
		f.set(func() { f.endless = false })
		f.put("timeouts", docFor(t, "all"))
		advance(DefaultMaxBackoff)
		h.want("all", source.ReasonNone, source.DeliveryWatch)
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	busy := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too busy")
	busy.Details = &metav1.StatusDetails{RetryAfterSeconds: 20}
	withFake(t, func(f *fakeAPI) { f.refuse = func(bool) *metav1.Status { return busy } }, func(t *testing.T, f *fakeAPI, h *heard) {
		h.want("", source.ReasonUnreachable, source.DeliveryWatch)
		advance(19 * time.Second)
		if f.lists.Load() != 2 {
			t.Errorf("%d requests before the server wants any", f.lists.Load())
		}
		advance(10 * time.Minute)
		if most := 2 * (1 + int(10*time.Minute/(20*time.Second))); f.lists.Load() > int64(most) {
			t.Errorf("%d requests, want at most %d", f.lists.Load(), most)
		}
	})
}

func TestRunSaysWhatIsSetUpWrongly(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("POD_NAMESPACE", "")
	config := WithConfig((&fakeAPI{}).config())
	for _, c := range []struct {
		name, want string
		source     source.Source
	}{
		{"no client", "spec.clients", New("", config, WithNamespace("shop"))},
		{"not in a cluster", "WithConfig", New("checkout")},
		{"no namespace", "POD_NAMESPACE", New("checkout", config)},
		{"no configuration", "is nil", New("checkout", WithConfig(nil))},
		{"no certificate", "/nowhere", New("checkout", WithNamespace("shop"), WithConfig(badCA()))},
		{"checks too rare", "WithCheck", New("checkout", config, WithCheck(MaxCheck+1))},
		{"no time between checks", "WithCheck", New("checkout", config, WithCheck(0))},
		{"no backoff", "WithMaxBackoff", New("checkout", config, WithMaxBackoff(0, time.Minute))},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.source.Run(t.Context(), func(source.Update) { t.Error("it said something") })
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "kubesource: ") {
				t.Errorf("Run returned %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestPace(t *testing.T) {
	p := pace{max: 4 * time.Second, maxDenied: time.Minute}
	for i, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		if got := p.wait(false, 0, 0, 0); got != want {
			t.Errorf("wait %d is %s, want %s", i+1, got, want)
		}
	}
	if got := p.wait(false, 0, 0, 0.999); got > 2010*time.Millisecond || got < 2*time.Second {
		t.Errorf("the shortest wait is %s", got)
	}
	for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := p.wait(true, 0, 0, 0); got != time.Duration(want)*time.Second {
			t.Errorf("slow wait %d is %s, want %d s", i+1, got, want)
		}
	}
	for outage, want := range map[time.Duration]time.Duration{0: 6 * time.Second, 20 * time.Second: 6 * time.Second, 40 * time.Second: 10 * time.Second, time.Hour: 15 * time.Second} {
		long := pace{max: 15 * time.Second, failures: 20}
		if got := long.wait(false, outage, 0, 0); got != want {
			t.Errorf("%s into an outage the wait is %s, want %s", outage, got, want)
		}
	}
	stood := pace{max: 15 * time.Second, first: 1500 * time.Millisecond}
	for i, want := range []time.Duration{1500 * time.Millisecond, 3 * time.Second, 6 * time.Second, 6 * time.Second} {
		if got := stood.wait(false, time.Second, 0, 0); got != want {
			t.Errorf("after a watch that stood, wait %d is %s, want %s", i+1, got, want)
		}
	}
	brief := pace{max: time.Second, first: 1500 * time.Millisecond}
	if got := brief.wait(false, time.Hour, 0, 0); got != time.Second {
		t.Errorf("with a bound of 1s the wait is %s", got)
	}
	if got := p.wait(false, 0, 10*time.Second, 1); got != 12500*time.Millisecond {
		t.Errorf("with Retry-After 10s the wait is %s", got)
	}
	if got := p.wait(false, 0, time.Hour, 0); got != maxRetryAfter {
		t.Errorf("with Retry-After 1h the wait is %s", got)
	}
	p.reset()
	if got := p.wait(true, 0, 0, 0); got != time.Second {
		t.Errorf("after a success the slow wait is %s", got)
	}
}
