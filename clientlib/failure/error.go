package failure

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Source says whose limit ended a call.
type Source uint8

// The sources of a limit. The zero value is SourcePolicy.
const (
	// SourcePolicy: a limit of the policy in force.
	SourcePolicy Source = iota
	// SourceBudget: the ambient deadline budget of the request being served.
	SourceBudget
	// SourceCaller: the deadline or cancellation of the caller's context.
	SourceCaller
)

// String returns "policy", "budget" or "caller".
func (s Source) String() string {
	switch s {
	case SourceBudget:
		return "budget"
	case SourceCaller:
		return "caller"
	default:
		return "policy"
	}
}

// SkipReason says why a failed attempt was not repeated.
type SkipReason uint8

// The reasons. The zero value, SkipNone, means that nothing was asked for or
// refused: the failure was not retryable, or there is no retry rule.
const (
	SkipNone SkipReason = iota
	// SkipAttempts: maxAttempts is used up.
	SkipAttempts
	// SkipMethod: the method is not repeatable and nobody vouched for it.
	SkipMethod
	// SkipNonReplayable: the request body cannot be sent a second time.
	SkipNonReplayable
	// SkipDeadline: the next attempt could not start within the deadline.
	SkipDeadline
	// SkipBudget: the retry budget is used up.
	SkipBudget

	skipCount
)

// SkipReasons is the number of skip reasons, SkipNone included.
const SkipReasons = int(skipCount)

var skipNames = [skipCount]string{"", "attempts", "method", "non_replayable", "deadline", "budget"}

// String returns the metric spelling, such as "non_replayable", and "" for SkipNone.
func (r SkipReason) String() string {
	if r >= skipCount {
		return ""
	}
	return skipNames[r]
}

// Error is the failure of a call. It wraps the library's own error, so that
// errors.Is and errors.As still find what they found before.
//
// For every timeout kind errors.Is(err, context.DeadlineExceeded) holds and
// Timeout returns true, whatever the cause underneath is. An Error is
// immutable once returned and safe to share.
type Error struct {
	// Kind is why the call failed.
	Kind Kind
	// Source is whose limit it was; meaningful for TotalTimeout and Cancelled.
	Source Source
	// Upstream is the policy's name of the service called.
	Upstream string
	// Field is the policy field whose limit passed, such as "timeouts.attempt";
	// empty when no field was the cause.
	Field string
	// Attempts is the number of requests that were sent, 0 when the call was
	// refused before the first one.
	Attempts int
	// Elapsed is the time since the call began.
	Elapsed time.Duration
	// Limit is the limit that passed; 0 when none did.
	Limit time.Duration
	// Skip is why the call was not tried again.
	Skip SkipReason
	// RetryAfter is how long the peer asked to wait, or when an open circuit
	// lets the next probe through; 0 when unknown.
	RetryAfter time.Duration
	// Err is the cause; may be nil.
	Err error
}

// Error says what happened in one line, without URLs, headers or bodies.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(e.Kind.Label(), "_", " "))
	if e.Upstream != "" {
		b.WriteString(" calling " + e.Upstream)
	}
	switch {
	case e.Limit > 0 && e.Source == SourcePolicy && e.Field != "":
		fmt.Fprintf(&b, ": %s %s", e.Field, e.Limit)
	case e.Limit > 0 && e.Kind.Timeout():
		fmt.Fprintf(&b, ": limit %s of the %s", e.Limit.Round(time.Millisecond), e.Source)
	}
	fmt.Fprintf(&b, " (attempts %s, elapsed %s", strconv.Itoa(e.Attempts), e.Elapsed.Round(time.Millisecond))
	if e.Skip != SkipNone {
		b.WriteString(", not repeated: " + e.Skip.String())
	}
	if e.RetryAfter > 0 {
		b.WriteString(", retry after " + e.RetryAfter.Round(time.Millisecond).String())
	}
	b.WriteString(")")
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes every timeout kind a context.DeadlineExceeded, and Cancelled a
// context.Canceled, also where the cause underneath is something else.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Kind.Timeout()
	case context.Canceled:
		return e.Kind == Cancelled
	default:
		return false
	}
}

// Timeout reports whether a time limit passed. It implements net.Error.
func (e *Error) Timeout() bool { return e.Kind.Timeout() }

// Temporary implements net.Error; a timeout is temporary, as in package net.
func (e *Error) Temporary() bool { return e.Kind.Timeout() }
