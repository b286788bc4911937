package deadline_test

import (
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// hostile are values that say nothing in any notation.
var hostile = []string{
	"", " ", "-1", "-5000", "+5", "1.5", "1e3", "0x10", "1_000", "1 000", " 1000", "1000 ", "\t1000", "1000\x00", "1000\r\n",
	"1000,1000", "1000, 2000", "1000;q=1", "5s", "PT5S", "NaN", "Infinity", "null", "true", "١٢٣", "１０００", "1000ms", "ms", "m", "S", "0m0",
	"9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775808", "9999999999999", strings.Repeat("9", 4096),
	"\xff\xfe", "1000\xc2\xa0", "²", "1000\n1000", "%31", "''", "1000m1000m", "--1", "000000000000000000001",
}

func headers() []deadline.Header {
	return []deadline.Header{deadline.Milliseconds(""), deadline.GRPCTimeout(), deadline.EnvoyExpected()}
}

func TestWhatIsNotInTheNotationSaysNothing(t *testing.T) {
	for _, h := range headers() {
		for _, value := range hostile {
			if left, ok := h.Parse(value); ok {
				t.Errorf("%s: %q says %s", h.Name(), value, left)
			}
		}
	}
}

func TestEachNotation(t *testing.T) {
	ms, grpc, envoy := deadline.Milliseconds("x-deadline-ms"), deadline.GRPCTimeout(), deadline.EnvoyExpected()
	const nothing = time.Duration(math.MinInt64)
	for _, c := range []struct {
		header deadline.Header
		value  string
		want   time.Duration
	}{
		{ms, "0", 0}, {ms, "1", time.Millisecond}, {ms, "4980", 4980 * time.Millisecond}, {ms, "007", 7 * time.Millisecond},
		{ms, "999999999999", 999999999999 * time.Millisecond}, {ms, "1000000000000", nothing}, {ms, "100m", nothing},
		{grpc, "0n", 0}, {grpc, "5H", 5 * time.Hour}, {grpc, "5M", 5 * time.Minute}, {grpc, "5S", 5 * time.Second},
		{grpc, "5m", 5 * time.Millisecond}, {grpc, "5u", 5 * time.Microsecond}, {grpc, "5n", 5}, {grpc, "99999999S", 99999999 * time.Second},
		{grpc, "99999999M", 99999999 * time.Minute}, {grpc, "99999999H", nothing}, {grpc, "100000000m", nothing}, {grpc, "5", nothing},
		{grpc, "5s", nothing}, {grpc, "5h", nothing}, {grpc, "m5", nothing}, {grpc, "5mm", nothing}, {grpc, "-5m", nothing},
		{envoy, "15000", 15 * time.Second}, {envoy, "0", nothing}, {envoy, "000", nothing}, {envoy, "5m", nothing},
	} {
		left, ok := c.header.Parse(c.value)
		if ok != (c.want != nothing) || ok && left != c.want {
			t.Errorf("%s: %s says %s (%t), want %s", c.header.Name(), c.value, left, ok, c.want)
		}
	}
}

func TestNamesStandForTheirNotation(t *testing.T) {
	for name, want := range map[string]deadline.Header{
		"":                               deadline.Milliseconds("X-Deadline-Ms"),
		"x-time-left":                    deadline.Milliseconds("X-Time-Left"),
		"GRPC-TIMEOUT":                   deadline.GRPCTimeout(),
		"x-envoy-expected-rq-timeout-ms": deadline.EnvoyExpected(),
	} {
		if got := deadline.Named(name); got != want {
			t.Errorf("%q is %+v, want %+v", name, got, want)
		}
	}
	if got := deadline.Named("grpc-timeout").Name(); got != http.CanonicalHeaderKey("grpc-timeout") {
		t.Errorf("%s is not canonical: net/http would keep it beside a copy", got)
	}
}

var notations = map[string]*regexp.Regexp{
	"X-Deadline-Ms":                  regexp.MustCompile(`^[0-9]{1,18}$`),
	"Grpc-Timeout":                   regexp.MustCompile(`^[0-9]{1,8}[HMSmun]$`),
	"X-Envoy-Expected-Rq-Timeout-Ms": regexp.MustCompile(`^[1-9][0-9]{0,18}$`),
}

// What is written is in the notation, can be read back, and never says more than
// was left: except that Envoy's header cannot say nothing.
func checkWritten(t *testing.T, h deadline.Header, left time.Duration) {
	t.Helper()
	text := h.Format(left)
	if !notations[h.Name()].MatchString(text) {
		t.Errorf("%s of %s is %q", h.Name(), left, text)
	}
	most := max(0, left)
	if h == deadline.EnvoyExpected() {
		most = max(most, time.Millisecond)
	}
	if said, ok := h.Parse(text); ok && said > most || !ok && left < 999999999999*time.Millisecond {
		t.Errorf("%s of %s is %q, read as %s (%t)", h.Name(), left, text, said, ok)
	}
}

func TestNeverMoreIsWrittenThanIsLeft(t *testing.T) {
	for _, h := range headers() {
		for _, left := range []time.Duration{
			math.MinInt64, -time.Second, -1, 0, 1, 999 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 4980 * time.Millisecond,
			99_999_999 * time.Millisecond, 99_999_999*time.Millisecond + time.Millisecond, 30 * time.Hour, 99_999_999 * time.Second,
			99_999_999*time.Second + 61*time.Second, math.MaxInt64,
		} {
			checkWritten(t, h, left)
		}
	}
}

// No bytes make a parser panic, or say something negative, or something that
// their own notation would not write for as much.
func FuzzHeader(f *testing.F) {
	for _, value := range append(hostile, "0", "1", "4980", "5S", "99999999H", "99999999M") {
		f.Add(value, int64(len(value)))
	}
	f.Fuzz(func(t *testing.T, value string, left int64) {
		for _, h := range headers() {
			if said, ok := h.Parse(value); ok {
				if said < 0 {
					t.Errorf("%s: %q says %s", h.Name(), value, said)
				}
				if len(value) > 12 || strings.Trim(value, "0123456789HMSmun") != "" {
					t.Errorf("%s: %q was read", h.Name(), value)
				}
				checkWritten(t, h, said)
			}
			checkWritten(t, h, time.Duration(left))
		}
	})
}
