package clientotel

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// NewTracer returns what With sets, for tests of its own.
func NewTracer(provider trace.TracerProvider, opts ...Option) engine.Tracer {
	return newTracer(provider, opts)
}
