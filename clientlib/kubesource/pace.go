package kubesource

import "time"

// The first waits after a failure.
const (
	initialBackoff       = 250 * time.Millisecond
	initialDeniedBackoff = time.Second
)

// maxRetryAfter bounds the wait that a server can ask for.
const maxRetryAfter = time.Minute

// pace decides how long to wait before the next attempt. It is pure: randomness
// is an argument.
type pace struct {
	max, maxDenied    time.Duration
	failures, refused int
}

// wait returns the time until the next attempt, after one more failure. Slow is
// for failures that repeating does not mend soon; they are counted apart. Each
// wait is shortened at random, by up to a half, so that clients that failed
// together do not come back together.
func (p *pace) wait(slow bool, retryAfter time.Duration, random float64) time.Duration {
	backoff, limit, count := initialBackoff, p.max, &p.failures
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
