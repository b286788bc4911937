package report

import (
	"slices"
	"time"
)

// pace decides when to write. It is pure: time and randomness are arguments.
type pace struct {
	firstDelay  time.Duration
	minInterval time.Duration
	spread      time.Duration
	maxBackoff  time.Duration

	started  bool
	failures int
	earliest time.Time // no write before
	due      time.Time // the next write; zero if none is planned
}

// plan makes sure that a write is planned, for content that differs from what
// was written. A write that is planned already stays where it is: it will carry
// the newest content. Wide says that the whole fleet sees the change at once.
func (p *pace) plan(now time.Time, wide bool, random float64) {
	if !p.due.IsZero() {
		return
	}
	delay := time.Duration(0)
	switch {
	case !p.started:
		delay = portion(p.firstDelay, random)
	case wide:
		delay = portion(p.spread, random)
	}
	p.started = true
	p.due = latest(p.earliest, now.Add(delay))
}

// cancel drops what is planned: the content is what was written after all.
func (p *pace) cancel() { p.due = time.Time{} }

// wrote notes a write that succeeded.
func (p *pace) wrote(now time.Time) {
	p.failures, p.due = 0, time.Time{}
	p.earliest = now.Add(p.minInterval)
}

// failed notes a write that did not, and plans the next attempt: after twice as
// long each time, and not before the server wants it. Randomness keeps pods
// that failed together from coming back together.
func (p *pace) failed(now time.Time, retryAfter time.Duration, random float64) {
	backoff := p.minInterval
	for range p.failures {
		backoff = min(2*backoff, p.maxBackoff)
	}
	p.failures++
	wait := min(backoff+portion(backoff/2, random), p.maxBackoff)
	if retryAfter > 0 {
		wait = max(wait, retryAfter+portion(min(retryAfter, p.spread), random))
	}
	p.earliest = now.Add(wait)
	p.due = p.earliest
}

func portion(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * random)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isWide reports whether a change is one that other pods see at the same time:
// anything about documents and where they come from. What a client's own code
// does, such as using another adapter, is not.
func isWide(before, after []Client) bool {
	return !slices.EqualFunc(before, after, func(a, b Client) bool {
		return a.Name == b.Name && a.Delivery == b.Delivery && a.State == b.State && a.Reason == b.Reason &&
			a.Message == b.Message && a.Revision == b.Revision && slices.Equal(a.Policies, b.Policies)
	})
}
