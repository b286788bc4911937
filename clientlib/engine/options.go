package engine

import (
	"context"
	"time"
)

// CallOptions are what a call site says about its calls. The zero value says
// nothing.
type CallOptions struct {
	// Route is a template such as "/orders/{id}", for metrics and traces where
	// the policy has no route. It must come from a small fixed set.
	Route string
	// Vouch overrides what the method says about repeating a call.
	Vouch Vouch
	// Cap is the most that each call may take, its body included; 0 for no cap.
	Cap time.Duration
}

// Vouch is a call site's word on whether a call may be made twice.
type Vouch uint8

// The words. The zero value leaves it to the policy.
const (
	VouchNothing Vouch = iota
	// VouchIdempotent: the call may be repeated whatever its method is.
	VouchIdempotent
	// VouchOnce: the call must not be repeated whatever its method is; an
	// attempt that the peer did not process (Unprocessed) still may.
	VouchOnce
)

type optionsKey struct{}

// WithCallOptions returns a context whose calls have the options; it replaces
// those of an outer WithCallOptions.
func WithCallOptions(ctx context.Context, o CallOptions) context.Context {
	return context.WithValue(ctx, optionsKey{}, &o)
}

// CallOptionsFrom returns the options in a context, the zero value for none.
func CallOptionsFrom(ctx context.Context) CallOptions {
	if o := callOptions(ctx); o != nil {
		return *o
	}
	return CallOptions{}
}

// callOptions returns the options in a context, which nobody may change; nil for
// none.
func callOptions(ctx context.Context) *CallOptions {
	o, _ := ctx.Value(optionsKey{}).(*CallOptions)
	return o
}
