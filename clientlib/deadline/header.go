package deadline

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header is a way to tell a peer how much time is left: the name of a field and
// how its value is written. The zero value is no header: it reads nothing and
// must not be written.
type Header struct {
	name     string
	notation notation
}

type notation uint8

const (
	milliseconds notation = iota
	envoyMilliseconds
	grpcTimeout
)

// DefaultName is the field that policies name by convention.
const DefaultName = "X-Deadline-Ms"

// Milliseconds returns the header that says whole milliseconds in decimal
// digits, and 0 for nothing left; an empty name means [DefaultName].
func Milliseconds(name string) Header {
	if name == "" {
		name = DefaultName
	}
	return Header{name: http.CanonicalHeaderKey(name)}
}

// EnvoyExpected returns Envoy's x-envoy-expected-rq-timeout-ms: whole
// milliseconds, where 0 is no limit, as everywhere in Envoy.
func EnvoyExpected() Header {
	return Header{name: "X-Envoy-Expected-Rq-Timeout-Ms", notation: envoyMilliseconds}
}

// GRPCTimeout returns gRPC's grpc-timeout: at most eight digits and a unit
// ("PROTOCOL-HTTP2.md" of the gRPC repository).
func GRPCTimeout() Header {
	return Header{name: "Grpc-Timeout", notation: grpcTimeout}
}

// Named returns the header of a name in the notation that the name stands for:
// those of Envoy and gRPC in theirs, every other one in milliseconds.
func Named(name string) Header {
	for _, h := range [...]Header{EnvoyExpected(), GRPCTimeout()} {
		if strings.EqualFold(h.name, name) {
			return h
		}
	}
	return Milliseconds(name)
}

// Name returns the name of the field in the canonical form of net/http.
func (h Header) Name() string { return h.name }

// Remove takes a field out of a header in all its spellings: a map that was
// written by hand need not be canonical, and a peer may read either.
func Remove(h http.Header, name string) {
	for key := range h {
		if len(key) == len(name) && strings.EqualFold(key, name) {
			delete(h, key)
		}
	}
}

// maxDigits bounds what is read: 12 digits of milliseconds are 31 years.
const maxDigits = 12

var (
	errMalformed = errors.New("not a time in the notation of the header")
	errUnlimited = errors.New("no limit")
)

// Parse reads a value. The second result is false where the value says nothing:
// it is not in the notation of the header to the letter, or it says that there
// is no limit.
func (h Header) Parse(value string) (left time.Duration, ok bool) {
	left, err := h.parse(value)
	return left, err == nil
}

func (h Header) parse(value string) (time.Duration, error) {
	unit, digits, limit := time.Millisecond, value, maxDigits
	if h.notation == grpcTimeout {
		if value == "" {
			return 0, errMalformed
		}
		last := len(value) - 1
		unit, digits, limit = unitOf(value[last]), value[:last], 8
	}
	if unit == 0 || len(digits) == 0 || len(digits) > limit {
		return 0, errMalformed
	}
	var n int64
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, errMalformed
		}
		n = n*10 + int64(c-'0')
	}
	if n == 0 && h.notation == envoyMilliseconds {
		return 0, errUnlimited
	}
	if n > int64(Unlimited/unit) {
		return 0, errMalformed // 99999999H are more than a Duration can say
	}
	return time.Duration(n) * unit, nil
}

func unitOf(c byte) time.Duration {
	switch c {
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	case 'S':
		return time.Second
	case 'm':
		return time.Millisecond
	case 'u':
		return time.Microsecond
	case 'n':
		return time.Nanosecond
	default:
		return 0
	}
}

// Format writes what is left, rounded down, so that the peer is never told more
// than that. Nothing left is the least that the notation can say of a limit: 0,
// and 1 in Envoy's, where 0 would be no limit.
func (h Header) Format(left time.Duration) string {
	ms := max(0, left).Milliseconds()
	switch h.notation {
	case envoyMilliseconds:
		return strconv.FormatInt(max(1, ms), 10)
	case grpcTimeout:
		return formatGRPC(ms)
	default:
		return strconv.FormatInt(ms, 10)
	}
}

// formatGRPC takes the finest unit, from milliseconds on, of which eight digits
// are enough.
func formatGRPC(ms int64) string {
	const most = 99_999_999
	for _, u := range [...]struct {
		ms   int64
		unit string
	}{{1, "m"}, {1000, "S"}, {60_000, "M"}} {
		if n := ms / u.ms; n <= most {
			return strconv.FormatInt(n, 10) + u.unit
		}
	}
	return strconv.FormatInt(min(most, ms/3_600_000), 10) + "H"
}
