package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// The total ends a response whose body drips, and the bytes so far are there.
func ExampleNewClient() {
	origin := httptest.NewServer(&clienttest.Origin{})
	defer origin.Close()
	doc, err := document.Parse([]byte(`{"schema": 1, "upstreams": [{
		"name": "orders", "hosts": ["127.0.0.1"], "timeouts": {"total": "250ms"}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	client, err := clientlib.New(context.Background(), "checkout",
		clientlib.WithSource(source.Static(doc)), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	resp, err := nethttp.NewClient(client).Get(origin.URL + "/drip?n=1000&every=10ms")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)

	var failed *clientlib.Error
	fmt.Println(resp.StatusCode, len(body) > 0, errors.As(err, &failed))
	fmt.Println(failed.Kind, failed.Field, failed.Limit)
	// Output:
	// 200 true true
	// TotalTimeout timeouts.total 250ms
}
