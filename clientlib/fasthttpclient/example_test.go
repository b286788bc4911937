package fasthttpclient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
	"github.com/valyala/fasthttp"
)

func ExampleNew() {
	server := httptest.NewServer(&clienttest.Origin{})
	defer server.Close()
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["127.0.0.1"],"timeouts":{"total":"50ms"}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}

	// In a pod, the name of the client is all there is to say.
	policies, err := clientlib.New(context.Background(), "checkout",
		clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer policies.Close()
	client, err := fasthttpclient.New(policies, &fasthttp.Client{MaxIdleConnDuration: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(server.URL + "/hang")
	err = client.Do(context.Background(), req, resp)

	var e *clientlib.Error
	if errors.As(err, &e) {
		fmt.Println(e.Kind, "calling", e.Upstream, "after", e.Attempts, "attempt, by", e.Field)
	}
	fmt.Println("a timeout of fasthttp:", errors.Is(err, fasthttp.ErrTimeout))
	// Output:
	// TotalTimeout calling orders after 1 attempt, by timeouts.total
	// a timeout of fasthttp: true
}
