package clienttest

import (
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// Timers is the system's clock, and counts the timers that it started: at the end
// of a test none should be live. The zero value is ready to use.
type Timers struct {
	live, fired atomic.Int64
}

// Live returns how many timers are running.
func (t *Timers) Live() int { return int(t.live.Load()) }

// Fired returns how many timers ran out so far.
func (t *Timers) Fired() int { return int(t.fired.Load()) }

// Now implements clock.Clock.
func (t *Timers) Now() time.Time { return clock.System().Now() }

// AfterFunc implements clock.Clock.
func (t *Timers) AfterFunc(d time.Duration, f func()) clock.Timer {
	c := &countedTimer{of: t}
	c.set(true)
	c.Timer = time.AfterFunc(d, func() {
		c.set(false)
		t.fired.Add(1)
		f()
	})
	return c
}

// NewTimer implements clock.Clock.
func (t *Timers) NewTimer(d time.Duration) clock.Timer {
	ch := make(chan time.Time, 1)
	c := t.AfterFunc(d, func() { ch <- t.Now() }).(*countedTimer)
	c.ch = ch
	return c
}

type countedTimer struct {
	*time.Timer
	of    *Timers
	ch    chan time.Time
	armed atomic.Bool
}

func (c *countedTimer) set(armed bool) {
	switch was := c.armed.Swap(armed); {
	case armed && !was:
		c.of.live.Add(1)
	case !armed && was:
		c.of.live.Add(-1)
	}
}

func (c *countedTimer) Stop() bool {
	stopped := c.Timer.Stop()
	c.set(false)
	return stopped
}

func (c *countedTimer) Reset(d time.Duration) bool {
	c.set(true)
	return c.Timer.Reset(d)
}

func (c *countedTimer) C() <-chan time.Time { return c.ch }
