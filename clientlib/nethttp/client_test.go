package nethttp_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// golang/go#37916, dotnet/extensions#4770: a timeout around the policy is found
// and told, once.
func TestATimeoutOfTheHTTPClientIsToldOnTheStatus(t *testing.T) {
	origin := httptest.NewServer(&clienttest.Origin{})
	defer origin.Close()
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["127.0.0.1"],"timeouts":{"total":"30s"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(source.Static(doc)),
		clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	own := nethttp.NewClient(client)
	defer own.CloseIdleConnections()
	call := func() {
		t.Helper()
		resp, err := own.Get(origin.URL + "/ok")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = readAll(t, resp)
	}
	call()
	if warnings := client.Status().Warnings; len(warnings) != 0 {
		t.Errorf("without a timeout: %q", warnings)
	}
	own.Timeout = time.Minute
	call()
	call()
	if warnings := client.Status().Warnings; len(warnings) != 1 || !strings.Contains(warnings[0], "http.Client.Timeout is set to 1m0s") {
		t.Errorf("warnings: %q", warnings)
	}
	if n := strings.Count(log.String(), "http.Client.Timeout"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}
