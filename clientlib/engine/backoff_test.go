package engine

import (
	"math"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// go-retryablehttp#297, openai-go#519, avast/retry-go#30, dragonfly#4851,
// qdrant/go-client#153: no attempt number makes a delay negative, zero by
// overflow, or longer than the maximum.
func TestDelayNeverOverflows(t *testing.T) {
	longest := 99999 * time.Hour
	for _, b := range []Backoff{
		{10 * time.Millisecond, time.Second, 2, document.JitterNone},
		{longest, longest, 10, document.JitterNone},
		{1, longest, 1, document.JitterNone},
		{1, math.MaxInt64, 10, document.JitterNone},
		{math.MaxInt64, math.MaxInt64, 10, document.JitterNone},
	} {
		before := time.Duration(0)
		for _, n := range []int{1, 2, 3, 10, 63, 64, 65, 1000, 1 << 40, math.MaxInt} {
			got := b.Delay(n, 0)
			if got < before || got > b.Max || got <= 0 {
				t.Errorf("%+v: delay %d is %d after %d", b, n, got, before)
			}
			before = got
		}
	}
}

func TestDelayOfZeroAndNaN(t *testing.T) {
	for _, b := range []Backoff{{}, {0, time.Second, 2, document.JitterNone}, {time.Second, 0, 2, document.JitterFull}} {
		for _, n := range []int{1, 1000, math.MaxInt} {
			if got := b.Delay(n, 0.5); got != 0 {
				t.Errorf("%+v: delay %d is %s, want 0", b, n, got)
			}
		}
	}
	if got := (Backoff{time.Second, time.Second, 2, document.JitterFull}).Delay(1, math.NaN()); got != 0 {
		t.Errorf("a random number that is none gives %s", got)
	}
}

func TestDelayGrowsByTheFactorUpToTheMaximum(t *testing.T) {
	b := Backoff{10 * time.Millisecond, 50 * time.Millisecond, 2, document.JitterNone}
	for n, want := range []time.Duration{10, 20, 40, 50, 50} {
		if got := b.Delay(n+1, 0.3); got != want*time.Millisecond {
			t.Errorf("delay %d is %s, want %dms", n+1, got, want)
		}
	}
}

func TestJitterStaysInItsRange(t *testing.T) {
	const whole = 80 * time.Millisecond
	for _, c := range []struct {
		jitter    document.Jitter
		low, high time.Duration
	}{
		{document.JitterFull, 0, whole}, {"", 0, whole},
		{document.JitterEqual, whole / 2, whole}, {document.JitterNone, whole, whole},
	} {
		b := Backoff{whole, time.Second, 2, c.jitter}
		if got := b.Delay(1, 0); got != c.low {
			t.Errorf("%q at 0: %s, want %s", c.jitter, got, c.low)
		}
		if got := b.Delay(1, math.Nextafter(1, 0)); got < c.high-1 || got > c.high {
			t.Errorf("%q near 1: %s, want %s", c.jitter, got, c.high)
		}
	}
}
