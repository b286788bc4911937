package clientlib_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// noPolicy is a source whose document says nothing.
func noPolicy() clientlib.Option {
	return clientlib.WithSource(source.Static(&document.Document{Schema: document.Schema}))
}

// A batch job that must be done by four gives its client the rest of its window.
func ExampleWithDeadlineSource() {
	closed := deadline.Fixed{End: time.Now().Add(-time.Minute)}
	client, err := clientlib.New(context.Background(), "nightly", noPolicy(), clientlib.WithDeadlineSource(closed),
		clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	_, err = nethttp.NewClient(client).Get("http://orders/")
	var failed *clientlib.Error
	fmt.Println(errors.As(err, &failed), failed.Kind, failed.Source, failed.Attempts)
	// Output: true TotalTimeout budget 0
}

// A call site that wants less than the policy allows.
func ExampleCap() {
	ctx := clientlib.WithCall(context.Background(), clientlib.Cap(300*time.Millisecond))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://orders/suggestions", nil)
	fmt.Println(req.URL, err)
	// Output: http://orders/suggestions <nil>
}
