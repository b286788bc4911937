package grpcclient

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// callError is an error of the engine and of gRPC at once.
type callError struct {
	failure *failure.Error
	status  *status.Status
}

// Error is that of the engine, which says more.
func (e *callError) Error() string { return e.failure.Error() }

// Unwrap returns the *failure.Error, which wraps what the library said.
func (e *callError) Unwrap() error { return e.failure }

// GRPCStatus makes the error one of the family of package status.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Timeout and Temporary make it a net.Error, as the engine's own is.
func (e *callError) Timeout() bool   { return e.failure.Timeout() }
func (e *callError) Temporary() bool { return e.failure.Temporary() }

// ownError gives an error of the engine a status: that which the library had for
// it where the failure was the library's, else one of its own.
func ownError(err error) error {
	var f *failure.Error
	if !errors.As(err, &f) {
		return err
	}
	e := &callError{failure: f}
	switch {
	case f.Kind.Timeout():
		e.status = status.New(codes.DeadlineExceeded, f.Error())
	case f.Kind == failure.Cancelled:
		e.status = status.New(codes.Canceled, f.Error())
	case f.Kind == failure.CircuitOpen:
		e.status = status.New(codes.Unavailable, f.Error())
	default:
		e.status = statusOf(f.Err)
	}
	return e
}

// statusOf returns the status that a caller of the library would find in an
// error, whatever it wraps.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok && s != nil {
		return s
	}
	return status.FromContextError(err)
}

// said returns what the library had to say of an attempt that a limit ended, nil
// where that was nothing but the end of its context.
func said(err error) error {
	text := status.Convert(err).Message()
	if text == context.Canceled.Error() || text == context.DeadlineExceeded.Error() {
		return nil
	}
	return engine.CauseOf(err)
}
