package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// allRules are all mechanisms of a call. The code is listed, as failsafegrpc's are:
// without, hardly an RPC would be repeated.
const allRules = `"timeouts":{"total":"10s","attempt":"5s"},"retry":{"maxAttempts":3,"retryableGRPCCodes":["UNAVAILABLE"],"budget":{"percent":10,"burst":10}},"circuitBreaker":{"failures":5}`

// headerRules also tell the peer what is left.
const headerRules = allRules + `,"deadline":{"header":"X-Deadline-Ms"}`

// policies returns the document of n upstreams with the rules; host i is
// host(i).
func policies(n int, host func(int) string, rules string) []byte {
	var b strings.Builder
	b.WriteString(`{"schema":1,"namespace":"shop","upstreams":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"u%d","hosts":[%q],%s}`, i, host(i), rules)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func parse(data []byte) (*document.Document, error) {
	doc, err := document.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the document of the benchmark: %w", err)
	}
	return doc, nil
}

// metrics counts a client's calls in a Prometheus registry.
func metrics() clientlib.Option { return clientprom.With(prometheus.NewRegistry()) }

// client returns a client of ours under rules for one host.
func client(host, rules string, more ...clientlib.Option) (*clientlib.Client, error) {
	doc, err := parse(policies(1, func(int) string { return host }, rules))
	if err != nil {
		return nil, err
	}
	return clientlib.New(context.Background(), "bench", append(more,
		clientlib.WithSource(source.Static(doc)),
		clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)))...)
}
