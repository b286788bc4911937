package engine

import (
	"math"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Backoff is the wait before a retry: exponential, capped, with jitter as
// described in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
type Backoff struct {
	Initial, Max time.Duration
	Factor       int
	Jitter       document.Jitter
}

// Delay returns the wait before retry n (1 for the first). random is uniform in
// [0, 1). The result is never negative and never above Max, whatever n is.
func (b Backoff) Delay(n int, random float64) time.Duration {
	// In floating point nothing overflows: the power saturates at +Inf, and the
	// cap is applied before the value becomes an integer again.
	wait := float64(b.Initial) * math.Pow(float64(b.Factor), float64(n-1))
	wait = min(wait, float64(b.Max))
	switch b.Jitter {
	case document.JitterNone:
	case document.JitterEqual:
		wait = wait/2 + random*wait/2
	default:
		wait *= random
	}
	if !(wait > 0) { // also catches NaN from 0 * Inf
		return 0
	}
	if wait >= float64(b.Max) { // which the conversion may round beyond 64 bits
		return b.Max
	}
	return time.Duration(wait)
}
