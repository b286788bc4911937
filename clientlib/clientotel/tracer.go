package clientotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// tracer implements engine.Tracer.
type tracer struct {
	tracer       trace.Tracer
	propagator   propagation.TextMapPropagator
	attemptSpans bool
}

// StartCall implements engine.Tracer.
func (t *tracer) StartCall(ctx context.Context, info engine.CallInfo) engine.Trace {
	kind := trace.SpanKindClient
	if t.attemptSpans {
		kind = trace.SpanKindInternal
	}
	attrs := request(info.Adapter, info.Method, info.URL)
	if info.Upstream != "" {
		attrs = append(attrs, upstreamKey.String(info.Upstream))
	}
	if info.Route != "" {
		attrs = append(attrs, routeKey.String(info.Route))
	}
	_, span := t.tracer.Start(ctx, spanName(info.Adapter, info.Method, info.Route), trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	return &call{tracer: t, span: span, adapter: info.Adapter, route: info.Route}
}

// call implements engine.Trace.
type call struct {
	tracer         *tracer
	span           trace.Span
	attempt        trace.Span // under way, with WithAttemptSpans only
	adapter, route string
}

// StartAttempt implements engine.Trace.
func (c *call) StartAttempt(ctx context.Context, info engine.AttemptInfo, carrier engine.Carrier) context.Context {
	ctx = trace.ContextWithSpan(ctx, c.span)
	if c.tracer.attemptSpans {
		attrs := request(c.adapter, info.Method, info.URL)
		if info.Number > 1 {
			attrs = append(attrs, resent(c.adapter, info.Number-1))
		}
		ctx, c.attempt = c.tracer.tracer.Start(ctx, spanName(c.adapter, info.Method, c.route),
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	}
	c.tracer.propagator.Inject(ctx, carrier)
	return ctx
}

// AttemptDone implements engine.Trace.
func (c *call) AttemptDone(e engine.AttemptEvent) {
	if c.attempt != nil {
		c.finish(c.attempt, e.OK, e.Kind, e.Status)
		c.attempt.SetAttributes(retry(e)...)
		c.attempt.End()
		c.attempt = nil
		return
	}
	if !c.span.IsRecording() {
		return
	}
	attrs := append(retry(e), numberKey.Int(e.Number), outcomeKey.String(outcome(e.OK, e.Kind)))
	if e.Status != engine.NoStatus {
		status, _ := response(c.adapter, e.Status)
		attrs = append(attrs, status)
	}
	c.span.AddEvent("attempt", trace.WithAttributes(attrs...))
}

// retry says what follows an attempt.
func retry(e engine.AttemptEvent) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 4)
	if e.Retried {
		attrs = append(attrs, waitKey.Int64(e.Wait.Milliseconds()))
	}
	if e.Skip != failure.SkipNone {
		attrs = append(attrs, skippedKey.String(e.Skip.String()))
	}
	return attrs
}

// CallDone implements engine.Trace.
func (c *call) CallDone(e engine.CallEvent) {
	if !c.span.IsRecording() {
		return
	}
	c.finish(c.span, e.OK, e.Kind, e.Status)
	if e.Attempts > 1 && !c.tracer.attemptSpans {
		c.span.SetAttributes(resent(c.adapter, e.Attempts-1))
	}
	if !e.OK && (e.Kind == failure.TotalTimeout || e.Kind == failure.Cancelled) {
		c.span.SetAttributes(sourceKey.String(e.Source.String()))
	}
	if e.Skip != failure.SkipNone {
		c.span.SetAttributes(skippedKey.String(e.Skip.String()))
	}
}

// End implements engine.Trace.
func (c *call) End(at time.Time, body engine.BodyEvent) {
	if !body.OK {
		fail(c.span, body.Kind.Label())
		c.span.SetAttributes(outcomeKey.String(body.Kind.Label()))
	}
	c.span.End(trace.WithTimestamp(at))
}

// finish says what came of a call or of an attempt.
func (c *call) finish(span trace.Span, ok bool, kind failure.Kind, status int) {
	span.SetAttributes(outcomeKey.String(outcome(ok, kind)))
	errorType := ""
	if !ok {
		errorType = kind.Label()
	}
	if status != engine.NoStatus {
		attr, named := response(c.adapter, status)
		span.SetAttributes(attr)
		if named != "" {
			errorType = named
		}
	}
	if errorType != "" {
		fail(span, errorType)
	}
}

// fail sets the status without a description: the error may quote an URL.
func fail(span trace.Span, errorType string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
	span.SetStatus(codes.Error, "")
}

func outcome(ok bool, kind failure.Kind) string {
	if ok {
		return "success"
	}
	return kind.Label()
}
