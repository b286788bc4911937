package clientotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/timeout-operator/timeout-operator/clientlib"
)

// Option changes how calls are traced.
type Option func(*tracer)

// WithPropagator sets what writes the context into requests; the default is the
// global one (otel.SetTextMapPropagator), which writes nothing until it is set.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(t *tracer) { t.propagator = p }
}

// WithAttemptSpans makes each request a CLIENT span of its own, so that a
// server's span is the child of the very request that reached it. The call's
// span is INTERNAL then.
func WithAttemptSpans() Option { return func(t *tracer) { t.attemptSpans = true } }

// With traces the calls of a client; a nil provider means the global one.
func With(provider trace.TracerProvider, opts ...Option) clientlib.Option {
	return clientlib.WithTracer(newTracer(provider, opts))
}

func newTracer(provider trace.TracerProvider, opts []Option) *tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &tracer{
		tracer: provider.Tracer(
			"github.com/timeout-operator/timeout-operator/clientlib/clientotel",
			trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: otel.GetTextMapPropagator(),
	}
	for _, opt := range opts {
		opt(t)
	}
	return t
}
