package document

import (
	"fmt"
	"strings"
	"time"
)

// DurationPattern is the form of every duration in policies and documents: the
// one of the Gateway API (GEP-2257). Go's own notation is wider (fractions,
// signs, microseconds); what is refused here never reaches a client.
const DurationPattern = `^([0-9]{1,5}(h|m|s|ms)){1,4}$`

// MaxDuration bounds what the form could otherwise add up to.
const MaxDuration = Duration(99999 * time.Hour)

// MaxDurationLength is the longest string that DurationPattern matches.
const MaxDurationLength = 28

// Duration is a time limit in a document. It is never negative. Zero, written
// "0s", means "no such limit" and is not the same as an absent field, which is
// a nil *Duration.
type Duration time.Duration

// ParseDuration reads the form of DurationPattern, up to MaxDuration. The
// largest value the form can spell, 399996h, fits a time.Duration, so nothing
// overflows on the way.
func ParseDuration(s string) (Duration, error) {
	rest, total := s, time.Duration(0)
	for part := 0; part == 0 || rest != ""; part++ {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		unit, size := durationUnit(rest[digits:])
		if part == 4 || digits < 1 || digits > 5 || size == 0 {
			return 0, fmt.Errorf("%q is not a duration: write up to four numbers of at most five digits, each with its unit h, m, s or ms, such as \"1s500ms\" (\"0s\" for no limit)", shorten(s))
		}
		n := time.Duration(0)
		for _, c := range []byte(rest[:digits]) {
			n = n*10 + time.Duration(c-'0')
		}
		total += n * size
		rest = rest[digits+len(unit):]
	}
	if Duration(total) > MaxDuration {
		return 0, fmt.Errorf("%q is longer than the largest duration, %s: write \"0s\" for no limit", shorten(s), MaxDuration)
	}
	return Duration(total), nil
}

func durationUnit(s string) (string, time.Duration) {
	switch {
	case strings.HasPrefix(s, "ms"):
		return "ms", time.Millisecond
	case strings.HasPrefix(s, "s"):
		return "s", time.Second
	case strings.HasPrefix(s, "m"):
		return "m", time.Minute
	case strings.HasPrefix(s, "h"):
		return "h", time.Hour
	default:
		return "", 0
	}
}

// shorten bounds foreign text that goes into a message.
func shorten(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Std returns the value as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the canonical spelling: the same value always gives the same
// text, "0s" for zero, units from large to small, fractions of a millisecond
// dropped. It matches DurationPattern for every value that ParseDuration
// returns.
func (d Duration) String() string {
	if d < Duration(time.Millisecond) {
		return "0s"
	}
	var b strings.Builder
	rest := time.Duration(d)
	for _, u := range [...]struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := rest / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.size
		}
	}
	return b.String()
}

// MarshalText writes the canonical spelling.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
