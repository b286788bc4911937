package nethttp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const stampRules = fullRules + `,"deadline":{"header":"X-Deadline-Ms"}`

// counted returns a client as programs have one, its metrics in a registry.
func counted(t testing.TB, policy string, base http.RoundTripper) *http.Client {
	t.Helper()
	client, err := clientlib.New(t.Context(), "checkout",
		clientlib.WithSource(source.Static(rules(t, policy))),
		clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		clientprom.With(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &http.Client{Transport: nethttp.NewTransport(client, base)}
}

// The bar is seven more than a bare client, and none for a host without a policy;
// context.WithTimeout adds five. What it is now leaves one to spare, which the race
// detector needs: with it, sync.Pool throws some of what it is given away.
func TestAllocations(t *testing.T) {
	buffer := make([]byte, 64)
	measure := func(c *http.Client, ctx context.Context, url string) float64 {
		req := newRequest(t, url).WithContext(ctx)
		return testing.AllocsPerRun(200, func() { call(t, c, req, buffer) })
	}
	background := context.Background()
	bare := measure(&http.Client{Transport: stub{}}, background, "http://orders/")
	for _, row := range []struct {
		name, rules, url string
		ctx              context.Context
		more             float64
	}{
		{"a host that no policy names", fullRules, "http://elsewhere/", background, 0},
		{"a policy without rules", ``, "http://orders/", background, 2},
		{"total", `"timeouts":{"total":"10s"}`, "http://orders/", background, 2},
		{"all mechanisms", fullRules, "http://orders/", background, 2},
		{"all mechanisms inside a budget", fullRules, "http://orders/", deadline.With(background, time.Hour), 2},
		{"all mechanisms, a template of the call site", fullRules, "http://orders/", clientlib.WithCall(background, clientlib.Route("/{id}")), 2},
		{"all mechanisms and a deadline header", stampRules, "http://orders/", background, 5},
		{"shadow", `"mode":"Shadow",` + fullRules, "http://orders/", background, 2},
	} {
		got := measure(counted(t, row.rules, stub{}), row.ctx, row.url) - bare
		t.Logf("%s: %.0f more than the %.0f of a bare client", row.name, got, bare)
		if got > row.more {
			t.Errorf("%s: %.0f allocations more than a bare client, want %.0f at most", row.name, got, row.more)
		}
	}
}

// A transport that waits for its context makes one be had, and whatever hangs on
// that is what context.WithTimeout costs it too. The server is counted as well, hence
// the one to spare.
func TestNoMoreAllocationsThanWithTimeout(t *testing.T) {
	buffer := make([]byte, 64)
	server, base := serve(t, "HTTP/1.1", http.HandlerFunc(mirror))
	defer base.CloseIdleConnections()
	req := newRequest(t, server+"/204")
	plain := &http.Client{Transport: base}
	want := testing.AllocsPerRun(200, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		call(t, plain, req.WithContext(ctx), buffer)
	})
	ours := under(t, loopbackRules(t, fullRules), base)
	got := testing.AllocsPerRun(200, func() { call(t, ours, req, buffer) })
	t.Logf("%.0f over the loopback interface, %.0f with context.WithTimeout", got, want)
	if got > want+1 {
		t.Errorf("%.0f allocations over the loopback interface, context.WithTimeout has %.0f", got, want)
	}
}
