package httpclients

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	restyv2 "github.com/go-resty/resty/v2"
	restyv3 "resty.dev/v3"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// newClient makes a client under rules for a server on loopback.
func newClient(t *testing.T, rules string, options ...clientlib.Option) *clientlib.Client {
	t.Helper()
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":"orders","hosts":["127.0.0.1"],%s}]}`, rules))
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	client, err := clientlib.New(t.Context(), "checkout", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

const twoAttempts = `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`

// The retries of resty come on top of those of the policy: they multiply. Without
// any of its own there are those of the policy alone, as the battery shows.
func TestRetriesOfRestyMultiply(t *testing.T) {
	server := adaptertest.NewHTTPServer(t, adaptertest.Setup{})
	to := server.Request(adaptertest.Call{Behaviour: adaptertest.Behaviour{Does: adaptertest.Fails}}).URL
	hc := nethttp.NewClient(newClient(t, twoAttempts))
	t.Cleanup(hc.CloseIdleConnections)

	v2 := restyv2.NewWithClient(hc).SetRetryCount(2).SetRetryWaitTime(time.Millisecond).
		AddRetryCondition(func(r *restyv2.Response, _ error) bool { return r.StatusCode() == 503 })
	if _, err := v2.R().Get(to); err != nil {
		t.Error(err)
	}
	if n := len(server.Seen()); n != 6 {
		t.Errorf("resty v2 with two retries of its own: %d requests, want three calls of two attempts", n)
	}

	v3 := restyv3.NewWithClient(hc).SetRetryCount(2).SetRetryWaitTime(time.Millisecond).
		AddRetryConditions(restyv3.RetryConditionStatus5XX)
	t.Cleanup(func() { _ = v3.Close() })
	if _, err := v3.R().Get(to); err != nil {
		t.Error(err)
	}
	if n := len(server.Seen()) - 6; n != 6 {
		t.Errorf("resty v3 with two retries of its own: %d requests, want three calls of two attempts", n)
	}
}

// The timeout of resty v2 is that of the http.Client that it was handed, which
// works against the policy: the status says so.
//
// Case T01.
func TestTheTimeoutOfResty2IsToldOf(t *testing.T) {
	server := adaptertest.NewHTTPServer(t, adaptertest.Setup{})
	client := newClient(t, twoAttempts)
	hc := nethttp.NewClient(client)
	t.Cleanup(hc.CloseIdleConnections)
	if _, err := restyv2.NewWithClient(hc).SetTimeout(time.Minute).R().Get(server.Request(adaptertest.Call{}).URL); err != nil {
		t.Fatal(err)
	}
	if w := client.Status().Warnings; len(w) != 1 || !strings.Contains(w[0], "http.Client.Timeout") {
		t.Errorf("warnings are %q", w)
	}
}
