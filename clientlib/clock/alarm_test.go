package clock_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// bell is an alarm that writes down when it was called.
type bell struct {
	clock.Alarm
	line   clock.Timeline
	timers *clienttest.Timers // nil on the system's clock

	mu    sync.Mutex
	calls []time.Duration
}

// newBell is set up a while after the origin of its timeline.
func newBell(timers *clienttest.Timers) *bell {
	b := &bell{timers: timers}
	b.line = clock.NewTimeline(clock.System())
	if timers != nil {
		b.line = clock.NewTimeline(timers)
	}
	b.Init(&b.line, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, b.line.Now())
	})
	time.Sleep(time.Minute)
	return b
}

func (b *bell) start(d time.Duration) { b.Start(b.line.Now(), d) }

// pass lets time pass and everything happen that is due by then.
func (b *bell) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bell) rung() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// live is the number of timers that run, or the wanted one where nobody counts.
func (b *bell) live(want int) int {
	if b.timers == nil {
		return want
	}
	return b.timers.Live()
}

// onEachClock runs a test in fake time, on the system's clock and on another one.
func onEachClock(t *testing.T, test func(t *testing.T, b *bell)) {
	t.Helper()
	for name, timers := range map[string]*clienttest.Timers{"system": nil, "counted": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newBell(timers)) })
		})
	}
}

func TestAnAlarmRingsForTheLastStartThatWasNotStopped(t *testing.T) {
	const ms = time.Millisecond
	start := func(d time.Duration) func(*bell) { return func(b *bell) { b.start(d) } }
	stop := func(b *bell) { b.Stop() }
	pass := func(d time.Duration) func(*bell) { return func(b *bell) { b.pass(d) } }
	for _, c := range []struct {
		name  string
		steps []func(*bell)
		want  []time.Duration // since the first step
	}{
		{"never started", []func(*bell){stop, stop}, nil},
		{"once", []func(*bell){start(10 * ms)}, []time.Duration{10 * ms}},
		{"at once", []func(*bell){start(0)}, []time.Duration{0}},
		{"overdue", []func(*bell){start(-time.Second)}, []time.Duration{0}},
		{"after just what is usual", []func(*bell){start(time.Second)}, []time.Duration{time.Second}},
		{"after a bit more", []func(*bell){start(time.Second + 1)}, []time.Duration{time.Second + 1}},
		{"after long", []func(*bell){start(10 * time.Hour)}, []time.Duration{10 * time.Hour}},
		{"twice", []func(*bell){start(10 * ms), pass(20 * ms), start(10 * ms)}, []time.Duration{10 * ms, 30 * ms}},
		{"stopped", []func(*bell){start(10 * ms), pass(9 * ms), stop}, nil},
		{"stopped after long", []func(*bell){start(time.Hour), pass(time.Minute), stop}, nil},
		{"put off", []func(*bell){start(10 * ms), pass(9 * ms), start(10 * ms)}, []time.Duration{19 * ms}},
		{"put off before it is waited for", []func(*bell){start(time.Hour), start(2 * time.Hour)}, []time.Duration{2 * time.Hour}},
		{"put off for long", []func(*bell){start(10 * ms), start(time.Hour)}, []time.Duration{time.Hour}},
		{"brought forward", []func(*bell){start(time.Second), start(ms)}, []time.Duration{ms}},
		{"brought forward, waited for", []func(*bell){start(time.Hour), pass(time.Minute), start(ms)}, []time.Duration{time.Minute + ms}},
		{"brought forward to now", []func(*bell){start(time.Hour), pass(time.Minute), start(0)}, []time.Duration{time.Minute}},
		{"anew, later", []func(*bell){start(10 * ms), stop, start(20 * ms)}, []time.Duration{20 * ms}},
		{"anew, sooner", []func(*bell){start(20 * ms), stop, start(10 * ms)}, []time.Duration{10 * ms}},
		{"anew, for the same time", []func(*bell){start(10 * ms), stop, start(10 * ms)}, []time.Duration{10 * ms}},
		{"anew, after it was found stopped", []func(*bell){start(10 * ms), stop, pass(time.Minute), start(10 * ms)}, []time.Duration{time.Minute + 10*ms}},
		{"anew, after it was waited for", []func(*bell){start(time.Hour), pass(time.Minute), stop, start(2 * time.Hour)}, []time.Duration{time.Minute + 2*time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, b *bell) {
				began := b.line.Now()
				for _, step := range c.steps {
					step(b)
				}
				b.pass(24 * time.Hour)
				var got []time.Duration
				for _, at := range b.rung() {
					got = append(got, at-began)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("rang %v, want %v", got, c.want)
				}
				if b.live(0) != 0 {
					t.Error("a timer is left")
				}
			})
		})
	}
}

func TestStopSaysWhetherACallWasDue(t *testing.T) {
	onEachClock(t, func(t *testing.T, b *bell) {
		check := func(when string, want bool) {
			t.Helper()
			if got := b.Stop(); got != want {
				t.Errorf("%s: %t", when, got)
			}
		}
		check("never started", false)
		b.start(time.Second)
		check("running", true)
		check("stopped", false)
		b.start(time.Second)
		b.start(time.Minute)
		check("started twice", true)
		check("started twice, stopped once", false)
		b.start(time.Hour)
		b.pass(time.Minute)
		check("waited for", true)
		b.start(time.Second)
		b.pass(time.Second)
		check("after the call", false)
	})
}

// now may be a moment ago: the call is then due that much sooner, and is not early.
func TestAnAlarmThatIsStartedLate(t *testing.T) {
	onEachClock(t, func(t *testing.T, b *bell) {
		now := b.line.Now()
		b.pass(time.Millisecond)
		b.Start(now, time.Second)
		b.pass(time.Minute)
		if got := b.rung(); len(got) != 1 || got[0] < now+time.Second || got[0] > now+time.Second+time.Millisecond {
			t.Errorf("rang %v, started at %s", got, now)
		}
	})
}

// The beginning of the timeline is a time like any other, and so is what was before.
func TestAnAlarmThatIsDueAtTheOrigin(t *testing.T) {
	for _, now := range []time.Duration{0, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			line := clock.NewTimeline(clock.System())
			var a clock.Alarm
			rang := 0
			a.Init(&line, func() { rang++ })
			a.Start(now, 0)
			time.Sleep(1)
			if synctest.Wait(); rang != 1 || a.Stop() {
				t.Errorf("at %s: rang %d times", now, rang)
			}
		})
	}
}

// On a clock that is not the system's a timer runs exactly while a call is due.
func TestAnAlarmOnAnotherClockActsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := &clienttest.Timers{}
		b := newBell(timers)
		for _, d := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			b.start(d)
			if n := timers.Live(); n != 1 {
				t.Errorf("started for %s: %d timers", d, n)
			}
			if b.Stop(); timers.Live() != 0 {
				t.Errorf("stopped: %d timers", timers.Live())
			}
		}
		b.pass(24 * time.Hour)
		if timers.Fired() != 0 {
			t.Errorf("%d timers fired that were stopped", timers.Fired())
		}
	})
}

// A given-up alarm is let go of: at the latest with the timer that was left running,
// and at once where it had turned out to be waited for.
func TestAGivenUpAlarmIsLetGoOf(t *testing.T) {
	for _, c := range []struct {
		name          string
		d, held, kept time.Duration
	}{
		{"soon", 100 * time.Millisecond, 0, 100 * time.Millisecond},
		{"long", time.Hour, 0, time.Second},
		{"long, waited for", time.Hour, time.Minute, 1},
		{"long, put off", time.Hour, time.Second - 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			line := clock.NewTimeline(clock.System())
			time.Sleep(time.Minute)
			given := givenUp(t, &line, c.d, c.held)
			time.Sleep(c.kept)
			synctest.Wait()
			runtime.GC()
			runtime.GC()
			if given.Value() != nil {
				t.Errorf("%s: a timer still has the alarm", c.name)
			}
		})
	}
}

// givenUp starts an alarm and stops it later.
func givenUp(t *testing.T, line *clock.Timeline, d, held time.Duration) weak.Pointer[clock.Alarm] {
	a := new(clock.Alarm)
	a.Init(line, func() { t.Error("a call was due after Stop") })
	a.Start(line.Now(), d)
	time.Sleep(held)
	synctest.Wait()
	if !a.Stop() {
		t.Error("no call was due")
	}
	return weak.Make(a)
}

// Random starts, stops and waits against the simplest model there is: the one call
// that is due.
func TestAnAlarmIsWhatItsModelSays(t *testing.T) {
	for seed := range uint64(60) {
		onEachClock(t, func(t *testing.T, b *bell) {
			m := &model{bell: b, random: rand.New(rand.NewPCG(seed, 2))}
			for step := range 200 {
				if fault := m.step(); fault != "" {
					t.Fatalf("seed %d, step %d: %s", seed, step, fault)
				}
			}
			b.Stop()
		})
	}
}

// model is an alarm and what is known of it.
type model struct {
	*bell
	random *rand.Rand
	due    time.Duration // 0 for none
	want   []time.Duration
}

// step does something and says what was wrong with it, "" for nothing.
func (m *model) step() string {
	waits := [...]time.Duration{0, 1, 2, 300 * time.Millisecond, time.Second - 1, time.Second, time.Second + 1, 2 * time.Second, time.Minute}
	d := waits[m.random.IntN(len(waits))]
	switch m.random.IntN(4) {
	case 0, 1:
		m.start(d)
		m.due = m.line.Now() + d
	case 2:
		if got := m.Stop(); got != (m.due != 0) {
			return fmt.Sprintf("Stop says %t with a call due at %s", got, m.due)
		}
		m.due = 0
	case 3:
		m.pass(d)
	}
	synctest.Wait()
	running := 1
	if m.due <= m.line.Now() {
		running = 0
		if m.due != 0 {
			m.want, m.due = append(m.want, m.due), 0
		}
	}
	if got := m.rung(); !slices.Equal(got, m.want) || m.live(running) != running {
		return fmt.Sprintf("rang %v, want %v; %d timers, want %d", got, m.want, m.live(running), running)
	}
	return ""
}

// Whatever others did meanwhile, the last word counts: a start rings when it is due,
// a stop keeps silent. Nothing rings before the soonest that was due.
func TestTheLastWordCounts(t *testing.T) {
	const soonest = 10 * time.Microsecond
	for round := range uint64(100) {
		onEachClock(t, func(t *testing.T, b *bell) {
			began := b.line.Now()
			var all sync.WaitGroup
			b.start(soonest)
			for worker := range uint64(3) {
				random := rand.New(rand.NewPCG(round, worker))
				all.Go(func() {
					for range 40 {
						if random.IntN(3) == 0 {
							b.Stop()
						} else {
							b.start(soonest + time.Duration(random.IntN(5))*soonest)
						}
						time.Sleep(time.Duration(random.IntN(4)) * soonest)
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if got := b.rung(); len(got) > 121 || len(got) > 0 && got[0] < began+soonest {
				t.Errorf("rang %d times, the first %s after the first start", len(got), got[0]-began)
			}
			b.lastStart(t, []time.Duration{0, soonest, time.Hour}[round%3])
			b.lastStop(t)
		})
	}
}

func (b *bell) lastStart(t *testing.T, d time.Duration) {
	t.Helper()
	b.Stop()
	before := len(b.rung())
	due := b.line.Now() + d
	b.start(d)
	b.pass(2 * time.Hour)
	if got := b.rung()[before:]; len(got) != 1 || got[0] != due {
		t.Errorf("the last start rang %v, due at %s", got, due)
	}
}

func (b *bell) lastStop(t *testing.T) {
	t.Helper()
	b.start(time.Minute)
	b.Stop()
	before := len(b.rung())
	b.pass(2 * time.Hour)
	if n := len(b.rung()) - before; n != 0 {
		t.Errorf("rang %d times after the last stop", n)
	}
	if b.live(0) != 0 {
		t.Error("a timer is left")
	}
}
