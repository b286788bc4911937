package clientotel_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientotel"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// answer is a transport that costs next to nothing.
type answer struct{}

func (answer) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: body{}, Request: req}, nil
}

type body struct{}

func (body) Read([]byte) (int, error) { return 0, io.EOF }
func (body) Close() error             { return nil }

func BenchmarkCall(b *testing.B) {
	inject := clientotel.WithPropagator(propagation.TraceContext{})
	for name, opts := range map[string][]clientlib.Option{
		"bare":     nil,
		"noop":     {clientotel.With(noop.NewTracerProvider(), inject)},
		"dropped":  {clientotel.With(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())), inject)},
		"recorded": {clientotel.With(sdktrace.NewTracerProvider(), inject)},
		"spans":    {clientotel.With(sdktrace.NewTracerProvider(), inject, clientotel.WithAttemptSpans())},
	} {
		b.Run(name, func(b *testing.B) { benchmarkCall(b, opts) })
	}
}

func benchmarkCall(b *testing.B, opts []clientlib.Option) {
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"],"timeouts":{"total":"10s"},"retry":{"maxAttempts":3}}]}`))
	if err != nil {
		b.Fatal(err)
	}
	opts = append(opts, clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	client, err := clientlib.New(b.Context(), "checkout", opts...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	transport := nethttp.NewTransport(client, answer{})
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://orders/orders/42", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
