package kubesource

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// pods is how many sources a fleet of the tests has.
const pods = 60

// comeBack runs a fleet through an outage and returns when requests came after the
// server was back, in order.
func comeBack(t *testing.T, stood, outage time.Duration) (lists []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		with(t, "a")(f)
		var fleet []*heard
		for range pods {
			fleet = append(fleet, listen(t, New("checkout", WithConfig(f.config()), WithNamespace("shop"))))
		}
		advance(stood)
		f.kill()
		advance(outage)
		back := time.Now()
		f.put("timeouts-checkout", docFor(t, "b"))
		f.set(func() { f.down, f.asked = false, nil })
		advance(time.Minute)
		for _, h := range fleet {
			h.want("b", source.ReasonNone, source.DeliveryWatch)
			h.stop()
		}
		for _, at := range f.asked {
			lists = append(lists, at.Sub(back))
		}
	})
	slices.Sort(lists)
	return lists
}

// most returns how many moments lie within one span of a length.
func most(moments []time.Duration, length time.Duration) int {
	top := 0
	for i := range moments {
		n, _ := slices.BinarySearch(moments[i:], moments[i]+length)
		top = max(top, n)
	}
	return top
}

// A server that was away, or ended all its connections, is not asked by all at
// once, and the longer it was away the less; each source is up to date within a
// time that goes with that.
//
// What a fleet makes of other outages: -v.
func TestAFleetDoesNotComeBackAtOnce(t *testing.T) {
	for _, c := range []struct {
		outage   time.Duration
		inSecond float64       // of all requests, at most
		late     time.Duration // the last request
	}{
		{0, .55, maxSpread},
		{2 * time.Second, .75, briefBackoff},
		{5 * time.Second, .5, briefBackoff},
		{30 * time.Second, .4, 7500 * time.Millisecond},
		{5 * time.Minute, .25, DefaultMaxBackoff},
	} {
		asked := comeBack(t, 4*time.Minute, c.outage)
		n := len(asked)
		at := func(part float64) time.Duration { return asked[int(float64(n-1)*part)].Round(time.Millisecond) }
		t.Logf("away for %s: %d requests of %d sources, at most %d in 100 ms, %d in a second; half of them after %s, 90 %% after %s, all after %s",
			c.outage, n, pods, most(asked, 100*time.Millisecond), most(asked, time.Second), at(.5), at(.9), at(1))
		if top := float64(most(asked, time.Second)) / float64(n); top > c.inSecond {
			t.Errorf("away for %s: %.0f %% of the requests came within one second", c.outage, 100*top)
		}
		if last := at(1); last > c.late+minSpread {
			t.Errorf("away for %s: the last request came after %s", c.outage, last)
		}
	}
}

func TestSpread(t *testing.T) {
	for stood, want := range map[time.Duration]time.Duration{0: minSpread, 15 * time.Second: minSpread, 45 * time.Second: 1500 * time.Millisecond, time.Hour: maxSpread} {
		if got := spread(stood); got != want {
			t.Errorf("after a connection that stood for %s the pause is up to %s, want %s", stood, got, want)
		}
	}
}

// Who bounds the time between two attempts bounds that pause too.
func TestTheBoundOfAttemptsHoldsForTheFirst(t *testing.T) {
	const bound = 300 * time.Millisecond
	withFake(t, with(t, "a"), func(t *testing.T, f *fakeAPI, h *heard) {
		for range 10 {
			advance(4 * time.Minute)
			f.kill()
			f.set(func() { f.down = false })
			f.set(func() { f.asked = nil })
			advance(bound)
			f.set(func() {
				if len(f.asked) < 2 {
					t.Errorf("%d requests within %s, want one of each place", len(f.asked), bound)
				}
			})
		}
	}, WithMaxBackoff(bound, time.Minute))
}
