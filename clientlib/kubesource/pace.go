package kubesource

import "time"

// The first waits after a failure.
const (
	initialBackoff       = 250 * time.Millisecond
	initialDeniedBackoff = time.Second
)

const (
	// briefBackoff bounds the wait of an outage that has only begun; it goes on
	// growing with the outage, by outagePart of that.
	briefBackoff = 6 * time.Second
	outagePart   = 4
)

// The random pause before a connection is made anew that broke off or was ended
// early: who ends one ends all of them, and lists and watches of all clients come
// back together. It grows with the time that the connection stood, by spreadPart
// of that, since what stands for long breaks for all.
const (
	minSpread  = 500 * time.Millisecond
	maxSpread  = 3 * time.Second
	spreadPart = 30
)

// spread returns the longest pause after a connection that stood for a time.
func spread(stood time.Duration) time.Duration {
	return min(max(stood/spreadPart, minSpread), maxSpread)
}

// maxRetryAfter bounds the wait that a server can ask for.
const maxRetryAfter = time.Minute

// pace decides how long to wait before the next attempt. It is pure: randomness
// is an argument.
type pace struct {
	max, maxDenied    time.Duration
	first             time.Duration // the first wait, if that is more than initialBackoff
	failures, refused int
}

// wait returns the time until the next attempt, after one more failure of an
// outage that has lasted for some time. Slow is for failures that repeating does
// not mend soon; they are counted apart. Each wait is shortened at random, by up
// to a half, so that clients that failed together do not come back together.
func (p *pace) wait(slow bool, outage, retryAfter time.Duration, random float64) time.Duration {
	limit := min(p.max, max(briefBackoff, outage/outagePart))
	backoff, count := max(initialBackoff, min(p.first, limit)), &p.failures
	if slow {
		backoff, limit, count = initialDeniedBackoff, p.maxDenied, &p.refused
	}
	for range *count {
		if backoff = 2 * backoff; backoff >= limit {
			backoff = limit
			break
		}
	}
	*count++
	wait := backoff - portion(backoff/2, random)
	if retryAfter > 0 {
		retryAfter = min(retryAfter, maxRetryAfter)
		wait = max(wait, retryAfter+portion(retryAfter/4, random))
	}
	return wait
}

// reset begins anew after a success.
func (p *pace) reset() { p.failures, p.refused = 0, 0 }

func portion(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * random)
}
