// Package retryafter reads how long a server asks its clients to stay away.
package retryafter

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Parse reads the value of a Retry-After header (RFC 9110, section 10.2.3):
// whole seconds, or a date, which is compared with now. What is absent,
// malformed or in the past is no wish, hence 0. A wish is cut down to limit, so
// that no server can send a client away for good; a limit of zero or less means
// that none is heard.
func Parse(value string, now time.Time, limit time.Duration) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" || limit <= 0 {
		return 0
	}
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return limit
	case err == nil && seconds > uint64(limit/time.Second):
		return limit
	case err == nil:
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), limit)
}
