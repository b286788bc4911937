package document

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestDurationSpellings(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s":        0,
		"0h0m0s0ms": 0,
		"1ms":       time.Millisecond,
		"400ms":     400 * time.Millisecond,
		"1s":        time.Second,
		"01s":       time.Second,
		"1m":        time.Minute,
		"1h":        time.Hour,
		"1s500ms":   1500 * time.Millisecond,
		"500ms1s":   1500 * time.Millisecond,
		"1h2m3s4ms": time.Hour + 2*time.Minute + 3*time.Second + 4*time.Millisecond,
		"1s1s1s1s":  4 * time.Second,
		"99999h":    99999 * time.Hour,
		"99998h60m": 99999 * time.Hour,
		"99999s":    99999 * time.Second,
		"00000s":    0,
	} {
		got, err := ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("ParseDuration(%q) is %s, %v, want %s", text, got.Std(), err, want)
		}
	}
}

func TestDurationRefusals(t *testing.T) {
	for _, text := range []string{
		"", " ", "0", "1", "600", "s", "ms", "1d", "1w", "1y", "5 s", " 5s", "5s ", "5s\n", "5S", "5MS", "5Ms", "abc5s", "5sabc", "5.5s", "5,5s",
		"-1s", "+1s", "1e3s", "1_000s", "100000s", "000001s", "9999999h", "2562047h48m", "1us", "1µs", "1ns", "1mm", "1sm", "1mss", "1s2", "1h1m1s1ms1s",
		"99999h1ms", "99999h99999h99999h99999h", "٣s", "1\x00s", "\xffs", strings.Repeat("1s", 1000), strings.Repeat("9", 1<<20) + "s",
	} {
		got, err := ParseDuration(text)
		if err == nil {
			t.Errorf("ParseDuration(%q) is %s, it must be refused", shorten(text), got.Std())
			continue
		}
		if len(err.Error()) > 400 {
			t.Errorf("the error about %q has %d characters", shorten(text), len(err.Error()))
		}
	}
}

// The pattern is what the schema of the API checks; the two must agree on every
// string, but for the upper bound.
func TestDurationAgreesWithItsPattern(t *testing.T) {
	pattern := regexp.MustCompile(DurationPattern)
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"0", "1", "9", "00", "12345", "123456", "h", "m", "s", "ms", " ", "-", ".", "d", "\n"}
	for range 100000 {
		var b strings.Builder
		for range rng.IntN(10) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		text := b.String()
		got, err := ParseDuration(text)
		tooLong := err != nil && strings.Contains(err.Error(), "longer than")
		if matches := pattern.MatchString(text); matches != (err == nil || tooLong) {
			t.Fatalf("%q: the pattern says %v, ParseDuration %v", text, matches, err)
		}
		if err == nil && (got < 0 || got > MaxDuration) {
			t.Fatalf("%q is %s", text, got.Std())
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []Duration{0, Duration(time.Millisecond), MaxDuration, MaxDuration - Duration(time.Millisecond)}
	for range 10000 {
		values = append(values, Duration(rng.Int64N(int64(MaxDuration)/1e6))*Duration(time.Millisecond))
	}
	for _, d := range values {
		text := d.String()
		got, err := ParseDuration(text)
		if err != nil || got != d {
			t.Fatalf("%d ms is written %q and read as %s, %v", d.Std().Milliseconds(), text, got.Std(), err)
		}
		if len(text) > MaxDurationLength {
			t.Fatalf("%q is longer than %d", text, MaxDurationLength)
		}
		var back Duration
		encoded, _ := d.MarshalText()
		if err := back.UnmarshalText(encoded); err != nil || back != d {
			t.Fatalf("text form of %q is read as %s, %v", text, back.Std(), err)
		}
	}
}

func ExampleParseDuration() {
	d, err := ParseDuration("1s500ms")
	fmt.Println(d, d.Std(), err)
	_, err = ParseDuration("1d")
	fmt.Println(err)
	// Output:
	// 1s500ms 1.5s <nil>
	// "1d" is not a duration: write up to four numbers of at most five digits, each with its unit h, m, s or ms, such as "1s500ms" ("0s" for no limit)
}
