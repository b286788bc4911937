package clientprom_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
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

// caller returns a function that makes one successful call under a total and a
// retry rule, and closes its body.
func caller(tb testing.TB, opts ...clientlib.Option) func() {
	tb.Helper()
	doc := upstreams(tb, orders+`,"timeouts":{"total":"10s","attempt":"5s"},"retry":{"maxAttempts":3}`)
	opts = append(opts, clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	client, err := clientlib.New(tb.Context(), "checkout", opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	transport := nethttp.NewTransport(client, answer{})
	ctx := clientlib.WithCall(tb.Context(), clientlib.Route("/orders/{id}"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://orders/orders/42", nil)
	if err != nil {
		tb.Fatal(err)
	}
	return func() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			tb.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

func TestMetricsAddNoAllocationToACall(t *testing.T) {
	without := testing.AllocsPerRun(1000, caller(t))
	with := testing.AllocsPerRun(1000, caller(t, clientprom.With(prometheus.NewRegistry())))
	if with > without {
		t.Errorf("%v allocations with metrics, %v without", with, without)
	}
	t.Logf("%v allocations a call", without)
}

func BenchmarkCall(b *testing.B) {
	for name, opts := range map[string][]clientlib.Option{
		"bare":    nil,
		"metrics": {clientprom.With(prometheus.NewRegistry())},
	} {
		b.Run(name, func(b *testing.B) {
			call := caller(b, opts...)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
