package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

func TestSystemTimersFireWhenTheirTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		start := c.Now()

		timer := c.NewTimer(3 * time.Second)
		if at := <-timer.C(); at.Sub(start) != 3*time.Second {
			t.Errorf("timer fired after %s, want 3s", at.Sub(start))
		}
		if timer.Stop() {
			t.Error("Stop of a fired timer says that it was running")
		}

		var called time.Time
		after := c.AfterFunc(2*time.Second, func() { called = c.Now() })
		if after.C() != nil {
			t.Error("C of an AfterFunc timer is not nil")
		}
		after.Reset(5 * time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := called.Sub(start); got != 8*time.Second {
			t.Errorf("function called after %s, want 8s", got)
		}
	})
}

func TestStoppedSystemTimerStaysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		timer := c.NewTimer(time.Second)
		if !timer.Stop() {
			t.Error("Stop of a running timer says that it had fired")
		}
		time.Sleep(2 * time.Second)
		select {
		case <-timer.C():
			t.Error("a stopped timer fired")
		default:
		}
	})
}

func TestSystemCostsNothingOverPackageTime(t *testing.T) {
	c := clock.System()
	fn := func() {}
	std := testing.AllocsPerRun(100, func() { time.AfterFunc(time.Hour, fn).Stop() })
	ours := testing.AllocsPerRun(100, func() { c.AfterFunc(time.Hour, fn).Stop() })
	if ours > std {
		t.Errorf("AfterFunc allocates %v times, package time %v times", ours, std)
	}
	std = testing.AllocsPerRun(100, func() { time.NewTimer(time.Hour).Stop() })
	ours = testing.AllocsPerRun(100, func() { c.NewTimer(time.Hour).Stop() })
	if ours > std {
		t.Errorf("NewTimer allocates %v times, package time %v times", ours, std)
	}
}
