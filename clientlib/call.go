package clientlib

import (
	"context"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// CallOption says something about the calls made with a context.
type CallOption func(*engine.CallOptions)

// WithCall returns a context whose calls have the options, on top of those that
// ctx has already.
func WithCall(ctx context.Context, opts ...CallOption) context.Context {
	o := engine.CallOptionsFrom(ctx)
	for _, opt := range opts {
		opt(&o)
	}
	return engine.WithCallOptions(ctx, o)
}

// Route names the calls for metrics and traces where the policy has no route
// for them, by a template such as "/orders/{id}", never by the path itself.
func Route(template string) CallOption {
	return func(o *engine.CallOptions) { o.Route = template }
}

// Cap limits each call to d from its beginning, body included, for a call site
// that wants less than the policy allows; the tightest limit holds. Zero or less
// is no cap. It holds in mode Shadow and on hosts that no policy names too. The
// error says that the limit was the caller's. Unlike deadline.With it starts anew
// with each call.
func Cap(d time.Duration) CallOption {
	return func(o *engine.CallOptions) { o.Cap = max(0, d) }
}

// Idempotent vouches that the call may be made twice, or, with false, forbids
// it, whatever the method and the policy say. What the peer did not process at
// all may be repeated either way.
func Idempotent(yes bool) CallOption {
	return func(o *engine.CallOptions) {
		o.Vouch = engine.VouchOnce
		if yes {
			o.Vouch = engine.VouchIdempotent
		}
	}
}
