package clock

import (
	"sync"
	"time"
)

// Alarm is a timer for those who start and stop one over and over, nearly always
// long before it is due, and who know what time it is. On the system's clock that
// costs next to nothing: the runtime's timer is left alone when the alarm is
// stopped, and when it is started for a time after that at which the runtime's fires
// anyway; then it looks what is due. To touch a timer of the runtime's costs more,
// and may wake a thread that waits for the network.
//
// Init comes first. Start and Stop may be called from several goroutines.
type Alarm struct {
	// What Start and Stop need comes first, close together: another core than the
	// last may call the next, and has to fetch it.
	mu sync.Mutex
	// lazy says that the clock is the system's. Others are taken at their word: their
	// timers are started for each Start, and stopped.
	lazy bool
	far  bool // the timer was started for longer than ahead
	// On the timeline, 0 for none:
	due   time.Duration // when to call f
	wakes time.Duration // when the timer fires

	timeline *Timeline
	f        func()
	timer    Timer // nil until the first Start
	// number is that of the timer, where each Start has one of its own.
	number int
}

// Init has the alarm call f in a goroutine of its own.
func (a *Alarm) Init(l *Timeline, f func()) {
	_, a.lazy = l.clock.(system)
	a.timeline, a.f = l, f
}

// ahead is how far ahead the runtime's timer is started at most until the alarm turns
// out to be waited for. It bounds for how long an alarm is kept that was given up.
const ahead = time.Second

// Start has f called when d has passed from now, which is a moment ago at most. A
// call that was due before is forgotten.
func (a *Alarm) Start(now, d time.Duration) {
	a.mu.Lock() // no defer, as in Stop: on the path of every call
	a.due = max(1, add(now, d))
	switch {
	case !a.lazy:
		a.startAnew(d)
	case a.wakes == 0 || a.due < a.wakes:
		a.wake(now, min(d, ahead))
	}
	a.mu.Unlock()
}

// Stop keeps f from being called. It returns false when f is not due any more.
func (a *Alarm) Stop() bool {
	a.mu.Lock()
	running := a.due != 0
	a.due = 0
	if running && (a.far || !a.lazy) {
		a.timer.Stop()
		a.wakes, a.far = 0, false
	}
	a.mu.Unlock()
	return running
}

// wake starts the timer of the system's clock.
func (a *Alarm) wake(now, d time.Duration) {
	a.wakes, a.far = max(1, add(now, d)), d > ahead
	if a.timer == nil {
		a.timer = a.timeline.clock.AfterFunc(d, a.look)
		return
	}
	a.timer.Reset(d)
}

// look calls f if that is due.
func (a *Alarm) look() {
	if a.isDue() {
		a.f()
	}
}

func (a *Alarm) isDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes, a.far = 0, false
	if a.due == 0 {
		return false
	}
	if now := a.timeline.Now(); now < a.due {
		a.wake(now, a.due-now)
		return false
	}
	a.due = 0
	return true
}

// startAnew starts a timer for this Start alone. One that ran out before it was
// stopped, and comes late, is known by its number: what it was for is over.
func (a *Alarm) startAnew(d time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.number++
	number := a.number
	a.timer = a.timeline.clock.AfterFunc(d, func() {
		if a.isFor(number) {
			a.f()
		}
	})
}

func (a *Alarm) isFor(number int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if number != a.number || a.due == 0 {
		return false
	}
	a.due = 0
	return true
}
