package clientprom_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

func ExampleWith() {
	origin := httptest.NewServer(&clienttest.Origin{})
	defer origin.Close()
	doc, err := document.Parse([]byte(`{"schema": 1, "upstreams": [{
		"name": "orders", "hosts": ["127.0.0.1"], "retry": {"maxAttempts": 2, "backoff": {"initial": "1ms"}}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	client, err := clientlib.New(context.Background(), "checkout", clientprom.With(registry),
		clientlib.WithSource(source.Static(doc)), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := clientlib.WithCall(context.Background(), clientlib.Route("/status"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin.URL+"/status?code=503&times=1", nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := nethttp.NewClient(client).Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "timeouts_client_requests_total", "timeouts_client_attempts_total":
				fmt.Println(family.GetName(), m.GetLabel()[6].GetValue(), m.GetLabel()[5].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	// Output:
	// timeouts_client_attempts_total orders 503 1
	// timeouts_client_attempts_total orders 200 1
	// timeouts_client_requests_total orders 200 1
}
