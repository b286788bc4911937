package clock_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// together runs functions at the same moment.
func together(fs ...func()) {
	var ready atomic.Int32
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(func() {
			for ready.Add(1); int(ready.Load()) < len(fs); {
				runtime.Gosched()
			}
			f()
		})
	}
	all.Wait()
}

// Two starts at the same moment: it rings for one of them, not in between.
func TestTwoStartsAtOnce(t *testing.T) {
	for range 2 {
		onEachClock(t, func(t *testing.T, b *bell) {
			for range 300 {
				now, before := b.line.Now(), len(b.rung())
				together(func() { b.Start(now, time.Millisecond) }, func() { b.Start(now, time.Hour) })
				b.pass(2 * time.Hour)
				got := b.rung()[before:]
				if len(got) != 1 && len(got) != 2 || got[0] != now+time.Millisecond && got[0] != now+time.Hour {
					t.Fatalf("rang after %s", got[0]-now)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A start and a stop at the same moment, and another stop: no timer is left.
func TestAStopDuringAStart(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			b := newBell(&clienttest.Timers{})
			b.start(1)
			b.pass(1)
			for range 500 {
				together(func() { b.start(time.Hour) }, func() { b.Stop() })
				if b.Stop(); b.timers.Live() != 0 {
					t.Fatal("a timer is left")
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// manual is a clock whose timers fire when the test says so.
type manual struct {
	clock.Clock
	now  time.Time
	fire func()
}

func (m *manual) Now() time.Time { return m.now }
func (m *manual) AfterFunc(_ time.Duration, f func()) clock.Timer {
	m.fire = f
	return m
}
func (m *manual) Stop() bool               { return false }
func (m *manual) Reset(time.Duration) bool { return false }
func (m *manual) C() <-chan time.Time      { return nil }

// A timer that ran out just before the alarm was stopped and started anew must not
// ring for the new start.
func TestATimerThatRanOutDoesNotRingForTheNextStart(t *testing.T) {
	for _, stop := range []bool{true, false} {
		m := &manual{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		line := clock.NewTimeline(m)
		var a clock.Alarm
		rang := 0
		a.Init(&line, func() { rang++ })
		a.Start(line.Now(), time.Second)
		m.now = m.now.Add(time.Second) // the timer ran out, its goroutine comes late
		late := m.fire
		underWay := stop && !a.Stop() // then that call may be made
		a.Start(line.Now(), time.Hour)
		if late(); rang != 0 && !underWay {
			t.Errorf("stopped before %t: rang an hour early", stop)
		}
	}
}

// The very first Start and a Stop of another goroutine.
func TestStopWhileTheFirstStartIsUnderWay(t *testing.T) {
	timers := &clienttest.Timers{}
	line := clock.NewTimeline(timers)
	for range 1000 {
		var a clock.Alarm
		a.Init(&line, func() {})
		together(func() { a.Start(line.Now(), time.Hour) }, func() {
			for range 200 {
				if a.Stop() {
					return
				}
			}
		})
		a.Stop()
	}
	if n := timers.Live(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

// Given up at the very moment at which the alarm finds that it is waited for.
func TestAGivenUpAlarmIsLetGoOfInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := clock.NewTimeline(clock.System())
		time.Sleep(time.Minute)
		var given []weak.Pointer[clock.Alarm]
		for range 2000 {
			given = append(given, one(&line))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		runtime.GC()
		runtime.GC()
		kept := 0
		for _, p := range given {
			if p.Value() != nil {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d of %d alarms that were given up are kept for their hour", kept, len(given))
		}
	})
}

func one(line *clock.Timeline) weak.Pointer[clock.Alarm] {
	a := new(clock.Alarm)
	a.Init(line, func() {})
	a.Start(line.Now(), time.Hour)
	time.Sleep(time.Second)
	a.Stop()
	return weak.Make(a)
}

// A call that is due when no clock can tell any more is not due now.
func TestAnAlarmForAfterTheEndOfTime(t *testing.T) {
	onEachClock(t, func(t *testing.T, b *bell) {
		b.start(greatest - time.Second)
		b.pass(24 * time.Hour)
		if got := b.rung(); len(got) != 0 {
			t.Errorf("rang %v", got)
		}
		b.Stop()
	})
}
