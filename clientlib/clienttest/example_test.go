package clienttest_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A service that is down twice, seen through a policy with three attempts.
func Example() {
	origin := &clienttest.Origin{}
	network := clienttest.NewNetwork(origin)
	defer network.Close()

	doc, err := document.Parse([]byte(`{"schema": 1, "upstreams": [{"name": "orders", "hosts": ["orders"],
		"timeouts": {"total": "10s"}, "retry": {"maxAttempts": 3}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	client, err := clientlib.New(context.Background(), "checkout",
		clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	shop := &http.Client{Transport: nethttp.NewTransport(client, network.Transport())}
	defer shop.CloseIdleConnections()
	resp, err := shop.Get("http://orders/status?times=2")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", origin.Requests("/status"), "requests on", network.Dials(), "connection")
	// Output: 200 OK after 3 requests on 1 connection
}
