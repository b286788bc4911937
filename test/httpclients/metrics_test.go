package httpclients

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// ask makes one call to a server that is unavailable twice.
type ask func(context.Context)

// One story by every adapter: a call that fails, is repeated and meets the end of
// its attempts, one that the open circuit refuses, and one without time. The names
// of metrics and labels, and the values that are not the protocol's, are the same.
func TestEveryAdapterFillsTheSameMetrics(t *testing.T) {
	want := []string{
		"timeouts_client_attempt_duration_seconds client upstream outcome=status",
		"timeouts_client_attempts_total client upstream outcome=status: 2",
		"timeouts_client_circuit_state client upstream",
		"timeouts_client_inflight client upstream",
		"timeouts_client_refused_total client upstream source=caller: 1",
		"timeouts_client_request_duration_seconds client upstream outcome=circuit_open",
		"timeouts_client_request_duration_seconds client upstream outcome=status",
		"timeouts_client_request_duration_seconds client upstream outcome=total_timeout",
		"timeouts_client_requests_total client upstream outcome=circuit_open: 1",
		"timeouts_client_requests_total client upstream outcome=status: 1",
		"timeouts_client_requests_total client upstream outcome=total_timeout: 1",
		"timeouts_client_retry_skipped_total client upstream reason=attempts: 1",
	}
	for name, open := range map[string]func(*testing.T, *clientlib.Client) ask{
		"nethttp": askNetHTTP, "fasthttp": askFastHTTP, "grpc": askGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			call := open(t, newClient(t, twoAttempts+`,"timeouts":{"total":"30s"},"circuitBreaker":{"failures":1,"recovery":"1h"}`, clientprom.With(registry)))
			gone, cancel := context.WithTimeout(t.Context(), 0)
			defer cancel()
			vouched := clientlib.WithCall(t.Context(), clientlib.Idempotent(true))
			call(gone)
			call(vouched)
			call(vouched)
			if got := gather(t, registry, name); !slices.Equal(got, want) {
				t.Errorf("metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// gather lists the metrics of calls: the family, and the labels that say something
// whatever the protocol is. Bodies are the protocol's own business.
func gather(t *testing.T, registry *prometheus.Registry, adapter string) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, family := range families {
		name := family.GetName()
		if strings.Contains(name, "_policy_") || strings.Contains(name, "_body_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			line := name
			for _, known := range []struct{ label, value string }{{"client", "checkout"}, {"upstream", "orders"}} {
				if labels[known.label] == known.value {
					line += " " + known.label
				}
			}
			if labels["outcome"] != "" && labels["adapter"] != adapter {
				t.Errorf("%s has the labels %v, want adapter %s", name, labels, adapter)
			}
			for _, label := range []string{"outcome", "reason", "source"} {
				if v := labels[label]; v != "" {
					line += " " + label + "=" + v
				}
			}
			if c := metric.GetCounter(); c != nil {
				if c.GetValue() == 0 {
					continue // told of before it happens
				}
				line += fmt.Sprintf(": %v", c.GetValue())
			}
			lines[line] = true
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

func askNetHTTP(t *testing.T, c *clientlib.Client) ask {
	server := adaptertest.NewHTTPServer(t, adaptertest.Setup{})
	to := server.Request(adaptertest.Call{Behaviour: adaptertest.Behaviour{Does: adaptertest.Fails}}).URL
	hc := nethttp.NewClient(c)
	t.Cleanup(hc.CloseIdleConnections)
	return func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := hc.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}

func askFastHTTP(t *testing.T, c *clientlib.Client) ask {
	server := adaptertest.NewHTTPServer(t, adaptertest.Setup{})
	to := server.Request(adaptertest.Call{Behaviour: adaptertest.Behaviour{Does: adaptertest.Fails}}).URL
	client, err := fasthttpclient.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI(to)
		_ = client.Do(ctx, req, resp)
	}
}

func askGRPC(t *testing.T, c *clientlib.Client) ask {
	var requests atomic.Int64
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		requests.Add(1)
		return status.Error(codes.Unavailable, "not yet")
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	options := append(grpcclient.DialOptions(c), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) {
		_ = conn.Invoke(ctx, procedure, &text{}, &text{})
	}
}
