package retryafter_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ExampleParse() {
	fmt.Println(retryafter.Parse("120", now, time.Hour))
	fmt.Println(retryafter.Parse("Sun, 01 Mar 2026 12:00:30 GMT", now, time.Hour))
	fmt.Println(retryafter.Parse("86400", now, time.Hour))
	fmt.Println(retryafter.Parse("soon", now, time.Hour))
	// Output:
	// 2m0s
	// 30s
	// 1h0m0s
	// 0s
}

func TestParse(t *testing.T) {
	const limit = time.Hour
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"007":                           7 * time.Second,
		"7, 8":                          0,
		" 7 ":                           7 * time.Second,
		"3599":                          3599 * time.Second,
		"3600":                          limit,
		"3601":                          limit,
		"18446744073709551615":          limit,
		"99999999999999999999999999999": limit,
		"-1":                            0,
		"+5":                            0,
		"1.5":                           0,
		"5s":                            0,
		"soon":                          0,
		now.Add(time.Minute).Format(http.TimeFormat):                  time.Minute,
		now.Add(-time.Second).Format(http.TimeFormat):                 0,
		now.Add(2 * limit).Format(http.TimeFormat):                    limit,
		"Fri, 31 Dec 9999 23:59:59 GMT":                               limit,
		now.Format(http.TimeFormat):                                   0,
		now.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"): time.Minute,
		now.Add(time.Minute).Format(time.ANSIC):                       time.Minute,
	} {
		if got := retryafter.Parse(value, now, limit); got != want {
			t.Errorf("Parse(%q) = %s, want %s", value, got, want)
		}
	}
}

func TestParseKeepsToItsLimit(t *testing.T) {
	for _, limit := range []time.Duration{-1, 0, 1, time.Second, time.Minute, 365 * 24 * time.Hour, math.MaxInt64} {
		for _, value := range []string{"0", "1", "61", "18446744073709551615", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
			if got := retryafter.Parse(value, now, limit); got < 0 || got > max(limit, 0) {
				t.Errorf("Parse(%q) with limit %s = %s", value, limit, got)
			}
		}
	}
}
