package clock_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

const (
	greatest = time.Duration(math.MaxInt64)
	smallest = time.Duration(math.MinInt64)
)

func TestTheTimelineCountsFromItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := clock.NewTimeline(clock.System())
		for _, passed := range []time.Duration{0, 1, time.Second, time.Hour} {
			origin := time.Now().Add(-line.Now())
			time.Sleep(passed)
			now := line.Now()
			if want := time.Since(origin); now != want {
				t.Errorf("%s after the origin the timeline says %s", want, now)
			}
			if at := line.At(now); !at.Equal(time.Now()) || line.Of(at) != now {
				t.Errorf("at %s: %s, and back %s", now, at, line.Of(at))
			}
		}
	})
}

func TestTheNumberOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := clock.NewTimeline(clock.System())
		check := func() {
			now := time.Now()
			for _, c := range []struct {
				name string
				at   time.Time
				want time.Duration
			}{
				{"now", now, line.Now()},
				{"ahead", now.Add(time.Minute), line.Now() + time.Minute},
				{"before the origin", now.Add(-48 * time.Hour), line.Now() - 48*time.Hour},
				{"by the wall clock", now.Add(time.Minute).Round(0), line.Now() + time.Minute},
				{"by the wall clock of elsewhere", now.Add(time.Minute).UTC().Round(0), line.Now() + time.Minute},
				{"by the wall clock, before the origin", now.Add(-48 * time.Hour).Round(0), line.Now() - 48*time.Hour},
				{"beyond", now.AddDate(400, 0, 0), greatest},
				{"by far beyond", time.Unix(1<<55, 0), greatest},
			} {
				if got := line.Of(c.at); got != c.want {
					t.Errorf("%s after the origin, %s: %d, want %d", line.Now(), c.name, got, c.want)
				}
			}
			// Nothing real is that long ago, so it may be off by the age of the timeline.
			for _, at := range []time.Time{{}, now.AddDate(-400, 0, 0)} {
				if got := line.Of(at); got > smallest+line.Now() {
					t.Errorf("%s after the origin, long ago: %d", line.Now(), got)
				}
			}
		}
		check()
		time.Sleep(90 * time.Minute)
		check()
	})
}

// setClock is a clock that somebody sets: its times have no monotonic reading.
type setClock struct {
	clock.Clock
	now time.Time
}

func (c *setClock) Now() time.Time { return c.now }

// A time without a monotonic reading is as far from now as the wall clock says at
// this moment, also before the origin of a clock that was set back.
func TestTheTimelineOfAClockThatIsSet(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := &setClock{Clock: clock.System(), now: noon}
	line := clock.NewTimeline(c)
	for _, set := range []time.Duration{0, time.Hour, -time.Hour} {
		c.now = noon.Add(set)
		if line.Now() != set {
			t.Errorf("set by %s the timeline says %s", set, line.Now())
		}
		if got := line.Of(c.now.Add(time.Second)); got != line.Now()+time.Second {
			t.Errorf("set by %s, a second ahead is %s", set, got)
		}
		if got := line.Of(c.now.AddDate(-400, 0, 0)); got > smallest+time.Hour {
			t.Errorf("set by %s, long ago is %d", set, got)
		}
		if got := line.Of(c.now.AddDate(400, 0, 0)); got < greatest-time.Hour {
			t.Errorf("set by %s, beyond is %d", set, got)
		}
	}
}
