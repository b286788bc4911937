package policytest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// Upstream is the name of the one upstream of [Rules].
const Upstream = "orders"

// Rules writes rules, JSON members such as `"timeouts":{"total":"1s"}` or nothing,
// into a document whose only upstream has the hosts, "orders" where there are none.
// Rules that are none fail the test.
func Rules(t testing.TB, rules string, hosts ...string) *document.Document {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{Upstream}
	}
	if rules != "" {
		rules = "," + rules
	}
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":%q,"hosts":["%s"]%s}]}`, Upstream, strings.Join(hosts, `","`), rules))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return doc
}

// NewClient makes a client under a document that neither reports nor logs. Its
// observer is events and its clock timers. Closing it is left to the test, which may
// have to do it within a bubble of fake time.
func NewClient(t testing.TB, doc *document.Document, events *Events, timers *clienttest.Timers, opts ...clientlib.Option) *clientlib.Client {
	t.Helper()
	client, err := clientlib.New(context.Background(), "checkout", append([]clientlib.Option{
		clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithObserver(events),
		clientlib.WithClock(timers), clientlib.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	if err != nil {
		t.Fatalf("client of the test: %v", err)
	}
	return client
}
