package clientlib_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A workload in a pod with the mount: the timeouts, retries and deadlines of its
// calls are those of the policies that name "checkout", and change with them.
func Example() {
	ctx := context.Background()
	client, err := clientlib.New(ctx, "checkout")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	httpClient := nethttp.NewClient(client)
	resp, err := httpClient.Get("http://orders:8080/orders/42")
	var failed *clientlib.Error
	if errors.As(err, &failed) {
		log.Printf("orders: %s after %d attempts in %s", failed.Kind, failed.Attempts, failed.Elapsed)
		return
	} else if err != nil {
		log.Print(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body) // the total covers the body, too
	log.Print(err)
}

// withPolicy gives a client the document that the operator would render.
func withPolicy(text string) clientlib.Option {
	doc, err := document.Parse([]byte(text))
	if err != nil {
		log.Fatal(err)
	}
	return clientlib.WithSource(source.Static(doc))
}

// quiet keeps the log of policy changes out of an example's output.
func quiet() clientlib.Option {
	return clientlib.WithLogger(slog.New(slog.DiscardHandler))
}

// A failed call says why, whose limit it was, and how often it was tried.
func ExampleError() {
	origin := httptest.NewServer(&clienttest.Origin{})
	defer origin.Close()
	client, err := clientlib.New(context.Background(), "checkout", quiet(), withPolicy(`{"schema": 1, "upstreams": [{
		"name": "orders", "hosts": ["127.0.0.1"],
		"timeouts": {"total": "30s", "attempt": "20ms"},
		"retry": {"maxAttempts": 2, "backoff": {"initial": "1ms"}}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	_, err = nethttp.NewClient(client).Get(origin.URL + "/hang")

	var failed *clientlib.Error
	fmt.Println(errors.As(err, &failed), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(failed.Kind, failed.Upstream, failed.Field, failed.Limit)
	fmt.Println("attempts:", failed.Attempts, "not repeated because of:", failed.Skip)
	// Output:
	// true true
	// AttemptTimeout orders timeouts.attempt 20ms
	// attempts: 2 not repeated because of: attempts
}

// A call site may vouch for a POST that its peer recognises when it comes twice,
// and name its route for metrics.
func ExampleWithCall() {
	origin := httptest.NewServer(&clienttest.Origin{})
	defer origin.Close()
	client, err := clientlib.New(context.Background(), "checkout", quiet(), withPolicy(`{"schema": 1, "upstreams": [{
		"name": "orders", "hosts": ["127.0.0.1"],
		"retry": {"maxAttempts": 3, "backoff": {"initial": "1ms"}}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := clientlib.WithCall(context.Background(), clientlib.Route("/status"), clientlib.Idempotent(true))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, origin.URL+"/status?code=503&times=1", nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := nethttp.NewClient(client).Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// Without a document a client starts all the same, limits nothing, and says so.
func ExampleClient_Status() {
	client, err := clientlib.New(context.Background(), "checkout", quiet(), clientlib.WithSource(source.Dir("/no/such/directory")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	status := client.Status()
	fmt.Println(status.State, status.Reason)
	// Output: Fallback NoDocument
}
