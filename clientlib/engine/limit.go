package engine

import (
	"context"
	"errors"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Limit is a limit of the policy that a Scope enforces.
type Limit uint8

// The limits. LimitNone means that none has fired.
const (
	LimitNone Limit = iota
	LimitTotal
	LimitAttempt
	LimitConnect
	LimitPool
	LimitResponseHeader
	LimitBodyIdle

	limitCount
)

var limits = [limitCount]struct {
	field, label string
	kind         failure.Kind
}{
	LimitTotal:          {"timeouts.total", "total", failure.TotalTimeout},
	LimitAttempt:        {"timeouts.attempt", "attempt", failure.AttemptTimeout},
	LimitConnect:        {"timeouts.connect", "connect", failure.ConnectTimeout},
	LimitPool:           {"timeouts.connect", "connect", failure.PoolTimeout},
	LimitResponseHeader: {"timeouts.responseHeader", "response_header", failure.ReadTimeout},
	LimitBodyIdle:       {"timeouts.bodyIdle", "body_idle", failure.ReadTimeout},
}

// Kind returns the failure kind of a limit that passed.
func (l Limit) Kind() failure.Kind { return limits[l].kind }

// Label returns the metric spelling, such as "response_header".
func (l Limit) Label() string { return limits[l].label }

// limitError is the cause of a context that a Scope ended. It says of itself
// that it is a timeout, for libraries that look at the cause.
type limitError struct{ limit Limit }

func (e *limitError) Error() string     { return limits[e.limit].field + " passed" }
func (e *limitError) Timeout() bool     { return true }
func (e *limitError) Temporary() bool   { return true }
func (e *limitError) Is(err error) bool { return err == context.DeadlineExceeded }

// CauseOf returns what a library itself had to say of an attempt that a Scope
// ended, nil when that was nothing but the cancellation. What it has to say more,
// such as which address it was dialling, stays, but is no context.Canceled:
// nobody but the caller cancels a call.
func CauseOf(err error) error {
	if _, own := err.(*limitError); own || err == context.Canceled {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return &echoError{err}
	}
	return err
}

// echoError is an error of a library that was told to stop.
type echoError struct{ err error }

func (e *echoError) Error() string      { return e.err.Error() }
func (e *echoError) As(target any) bool { return errors.As(e.err, target) }
func (e *echoError) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
}

// limitErrors are the causes of contexts; nil for LimitNone.
var limitErrors = func() (errs [limitCount]error) {
	for l := LimitNone + 1; l < limitCount; l++ {
		errs[l] = &limitError{limit: l}
	}
	return errs
}()
