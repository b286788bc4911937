package clock

import "time"

// Timeline is the time of a clock as a number: what has passed since an origin. It
// costs half of what Now does, since the wall clock need not be read, and numbers
// compare and add. It is immutable.
type Timeline struct {
	clock  Clock
	origin time.Time
}

// NewTimeline returns a Timeline whose origin is now.
func NewTimeline(c Clock) Timeline { return Timeline{clock: c, origin: c.Now()} }

// Now is what has passed since the origin.
func (l *Timeline) Now() time.Duration {
	if _, ok := l.clock.(system); ok {
		return time.Since(l.origin)
	}
	return l.clock.Now().Sub(l.origin)
}

// At is the time that a number stands for. Its wall clock reading is what the
// system's clock would show if it had not been set since the origin.
func (l *Timeline) At(d time.Duration) time.Time { return l.origin.Add(d) }

// Of is the number of a time; the greatest, or smallest, for one that is beyond.
func (l *Timeline) Of(t time.Time) time.Duration {
	if onWall(t) && !onWall(l.origin) {
		// Only the wall clock of this moment compares with it.
		return add(l.Now(), t.Sub(l.clock.Now()))
	}
	return t.Sub(l.origin)
}

// onWall reports whether a time has no monotonic reading.
func onWall(t time.Time) bool { return t == t.Round(0) }

// add is the sum of a number that is small and any other.
func add(small, d time.Duration) time.Duration {
	sum := small + d
	switch {
	case small > 0 && sum < d:
		return maxDuration
	case small < 0 && sum > d:
		return minDuration
	}
	return sum
}

const (
	minDuration = time.Duration(-1 << 63)
	maxDuration = time.Duration(1<<63 - 1)
)
