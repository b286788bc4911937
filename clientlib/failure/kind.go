// Package failure is the closed vocabulary of why an attempt or a call failed,
// and the error type that carries it.
//
// The package depends on the standard library alone, so that policies,
// documents, adapters and metrics can all speak of the same kinds.
package failure

import (
	"fmt"
	"math/bits"
)

// Kind says why an attempt failed. The list is closed: a failure that fits
// nowhere is [Unknown], never a new word.
//
// A Kind has two spellings: String gives the API spelling ("AttemptTimeout"),
// Label the metric label ("attempt_timeout"). The zero value is Unknown.
type Kind uint8

// The failure kinds.
const (
	// Unknown is a failure that none of the other kinds describes.
	Unknown Kind = iota
	// ConnectTimeout: the limit timeouts.connect passed before a connection
	// (DNS, dial and TLS handshake) was ready, or the dialer's own timeout did.
	ConnectTimeout
	// ConnectError: no connection could be made (refused, unreachable, reset
	// during the dial).
	ConnectError
	// DNSError: the name could not be resolved.
	DNSError
	// TLSError: the TLS handshake failed, bad certificates included.
	TLSError
	// PoolTimeout: the limit timeouts.connect passed while the attempt waited
	// for a free connection of a bounded pool, without a dial of its own.
	PoolTimeout
	// AttemptTimeout: the limit timeouts.attempt passed before the response
	// headers (on gRPC: the unary reply) were there.
	AttemptTimeout
	// ReadTimeout: timeouts.responseHeader passed before the first response
	// byte, or timeouts.bodyIdle passed between two reads of the body.
	ReadTimeout
	// WriteTimeout: writing the request took longer than the library allows.
	WriteTimeout
	// TotalTimeout: the limit of the whole call passed: timeouts.total, the
	// ambient budget, or the caller's own deadline; see Error.Source.
	TotalTimeout
	// Disconnected: the connection broke after the request was (or may have
	// been) sent and before the response was complete.
	Disconnected
	// Unprocessed: the peer said that it did not act on the request (HTTP/2
	// REFUSED_STREAM, or GOAWAY with a last stream id below it). Any method
	// may be repeated.
	Unprocessed
	// ProtocolError: the peer answered with something that is not the protocol.
	ProtocolError
	// BodyError: the request body could not be read or rewound, or the
	// response body could not be decoded.
	BodyError
	// Status: the last response says failure (an HTTP status or gRPC code).
	Status
	// Cancelled: the caller gave up. Never retried, neutral for the breaker.
	Cancelled
	// CircuitOpen: the circuit breaker refused the call; nothing was sent.
	CircuitOpen

	kindCount
)

var kindNames = [kindCount]struct{ api, label string }{
	Unknown:        {"Unknown", "unknown"},
	ConnectTimeout: {"ConnectTimeout", "connect_timeout"},
	ConnectError:   {"ConnectError", "connect_error"},
	DNSError:       {"DNSError", "dns_error"},
	TLSError:       {"TLSError", "tls_error"},
	PoolTimeout:    {"PoolTimeout", "pool_timeout"},
	AttemptTimeout: {"AttemptTimeout", "attempt_timeout"},
	ReadTimeout:    {"ReadTimeout", "read_timeout"},
	WriteTimeout:   {"WriteTimeout", "write_timeout"},
	TotalTimeout:   {"TotalTimeout", "total_timeout"},
	Disconnected:   {"Disconnected", "disconnected"},
	Unprocessed:    {"Unprocessed", "unprocessed"},
	ProtocolError:  {"ProtocolError", "protocol_error"},
	BodyError:      {"BodyError", "body_error"},
	Status:         {"Status", "status"},
	Cancelled:      {"Cancelled", "cancelled"},
	CircuitOpen:    {"CircuitOpen", "circuit_open"},
}

// Count is the number of kinds; valid kinds are 0..Count-1, so that tables can
// be indexed by kind.
const Count = int(kindCount)

// String returns the API spelling, such as "AttemptTimeout".
func (k Kind) String() string {
	if k >= kindCount {
		return kindNames[Unknown].api
	}
	return kindNames[k].api
}

// Label returns the metric spelling, such as "attempt_timeout".
func (k Kind) Label() string {
	if k >= kindCount {
		return kindNames[Unknown].label
	}
	return kindNames[k].label
}

// Timeout reports whether the kind means that a time limit passed.
func (k Kind) Timeout() bool { return Timeouts.Has(k) }

// MarshalText writes the API spelling.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the API spelling and refuses everything else.
func (k *Kind) UnmarshalText(text []byte) error {
	parsed, ok := ParseKind(string(text))
	if !ok {
		return fmt.Errorf("%q is not a failure kind", text)
	}
	*k = parsed
	return nil
}

// ParseKind finds a kind by its API spelling, letter case included.
func ParseKind(name string) (Kind, bool) {
	for k, names := range kindNames {
		if names.api == name {
			return Kind(k), true
		}
	}
	return Unknown, false
}

// All returns every kind in the order of declaration.
func All() []Kind {
	kinds := make([]Kind, 0, Count)
	for k := range kindCount {
		kinds = append(kinds, k)
	}
	return kinds
}

// Set is a set of kinds. The zero value is the empty set; it is a plain value,
// safe to copy and to share.
type Set uint32

// NewSet returns the set of the given kinds.
func NewSet(kinds ...Kind) Set {
	var s Set
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s Set) Has(k Kind) bool { return k < kindCount && s&(1<<k) != 0 }

// Len is the number of kinds in the set.
func (s Set) Len() int { return bits.OnesCount32(uint32(s)) }

// Kinds lists the members in the order of declaration.
func (s Set) Kinds() []Kind {
	kinds := make([]Kind, 0, s.Len())
	for k := range kindCount {
		if s.Has(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// The sets that the contract names.
const (
	// Timeouts are the kinds for which an Error is a timeout.
	Timeouts Set = 1<<ConnectTimeout | 1<<PoolTimeout | 1<<AttemptTimeout |
		1<<ReadTimeout | 1<<WriteTimeout | 1<<TotalTimeout
	// DefaultRetryable is what a retry block without retryableKinds repeats.
	DefaultRetryable Set = 1<<ConnectTimeout | 1<<ConnectError | 1<<DNSError |
		1<<PoolTimeout | 1<<AttemptTimeout | 1<<ReadTimeout | 1<<Disconnected |
		1<<Unprocessed
	// DefaultTrip is what a circuit breaker without tripKinds counts as a
	// failure: every timeout and connection kind, and ProtocolError. Responses
	// with a status of 500 and above (Status) count too; a Status below 500
	// never does.
	DefaultTrip Set = Timeouts | 1<<ConnectError | 1<<DNSError | 1<<TLSError |
		1<<Disconnected | 1<<Unprocessed | 1<<ProtocolError | 1<<Status
	// NeverRetryable can be asked for, but no attempt that ended so is ever
	// repeated: the call itself is over, or the caller left.
	NeverRetryable Set = 1<<TotalTimeout | 1<<Cancelled | 1<<CircuitOpen
)
