package clientprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientprom"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// upstreams writes a document; each upstream is `"name":"orders",…`.
func upstreams(t testing.TB, list ...string) *document.Document {
	t.Helper()
	for i := range list {
		list[i] = "{" + list[i] + "}"
	}
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[` + strings.Join(list, ",") + `]}`))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	return doc
}

const (
	orders   = `"name":"orders","hosts":["orders"]`
	payments = `"name":"payments","hosts":["payments"]`
)

// changing is a source whose document the test changes.
type changing struct{ documents chan *document.Document }

func (s changing) Run(ctx context.Context, sink func(source.Update)) error {
	sink(source.Update{Reason: source.ReasonNoDocument, Err: errors.New("there is no document")})
	for {
		select {
		case doc := <-s.documents:
			sink(source.Update{Document: doc, Delivery: source.DeliveryMount})
		case <-ctx.Done():
			return nil
		}
	}
}

func newClient(t testing.TB, name string, r prometheus.Registerer, s source.Source) *clientlib.Client {
	t.Helper()
	client, err := clientlib.New(context.Background(), name, clientprom.With(r),
		clientlib.WithSource(s), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// inFakeTime gives a test a client of one document and a misbehaving server.
func inFakeTime(t *testing.T, doc *document.Document, test func(t *testing.T, r *prometheus.Registry, h *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		network := clienttest.NewNetwork(&clienttest.Origin{})
		client := newClient(t, "checkout", r, source.Static(doc))
		h := &http.Client{Transport: nethttp.NewTransport(client, network.Transport())}
		test(t, r, h)
		h.CloseIdleConnections()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
}

func get(t *testing.T, h *http.Client, ctx context.Context, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// expect compares metrics with the text format.
func expect(t *testing.T, r *prometheus.Registry, text string, names ...string) {
	t.Helper()
	var lines strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines.WriteString(strings.TrimSpace(line) + "\n")
	}
	for i := range names {
		names[i] = "timeouts_client_" + names[i]
	}
	var want string
	for _, name := range names {
		family := gather(t, r, name)
		if family == "" {
			t.Errorf("there is no %s", name)
		}
		want += family
	}
	if got := lines.String(); got != want {
		t.Errorf("metrics are\n%swant\n%s", want, got)
	}
}

// gather writes a family in the text format, without its comments and, of
// histograms, without the buckets.
func gather(t *testing.T, r *prometheus.Registry, name string) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			series := strings.TrimPrefix(name, "timeouts_client_") + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetHistogram() != nil:
				fmt.Fprintf(&b, "%s %d %.3fs\n", series, m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
			case m.GetCounter() != nil:
				fmt.Fprintf(&b, "%s %v\n", series, m.GetCounter().GetValue())
			default:
				fmt.Fprintf(&b, "%s %v\n", series, m.GetGauge().GetValue())
			}
		}
	}
	return b.String()
}

func TestCallsAttemptsAndBodiesAreCountedWithTheFrozenNames(t *testing.T) {
	doc := upstreams(t, orders+`,"timeouts":{"total":"1s","attempt":"400ms"},
		"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`)
	inFakeTime(t, doc, func(t *testing.T, r *prometheus.Registry, h *http.Client) {
		get(t, h, t.Context(), "http://orders/ok")
		get(t, h, t.Context(), "http://orders/hang")
		get(t, h, t.Context(), "http://orders/status?code=503&times=1")
		get(t, h, t.Context(), "http://orders/drip?n=4&every=400ms")
		expect(t, r, `
			requests_total{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",status="200",upstream="orders"} 3
			requests_total{adapter="nethttp",client="checkout",method="GET",outcome="total_timeout",route="unknown",status="none",upstream="orders"} 1
			request_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",upstream="orders"} 3 0.010s
			request_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="total_timeout",route="unknown",upstream="orders"} 1 1.000s
			body_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",upstream="orders"} 2 0.000s
			body_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="total_timeout",route="unknown",upstream="orders"} 1 1.000s
			attempts_total{adapter="nethttp",client="checkout",method="GET",outcome="attempt_timeout",route="unknown",status="none",upstream="orders"} 2
			attempts_total{adapter="nethttp",client="checkout",method="GET",outcome="status",route="unknown",status="503",upstream="orders"} 1
			attempts_total{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",status="200",upstream="orders"} 3
			attempts_total{adapter="nethttp",client="checkout",method="GET",outcome="total_timeout",route="unknown",status="none",upstream="orders"} 1
			attempt_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="attempt_timeout",route="unknown",upstream="orders"} 2 0.800s
			attempt_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="status",route="unknown",upstream="orders"} 1 0.000s
			attempt_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",upstream="orders"} 3 0.000s
			attempt_duration_seconds{adapter="nethttp",client="checkout",method="GET",outcome="total_timeout",route="unknown",upstream="orders"} 1 0.170s
			inflight{adapter="nethttp",client="checkout",upstream="orders"} 0`,
			"requests_total", "request_duration_seconds", "body_duration_seconds",
			"attempts_total", "attempt_duration_seconds", "inflight")
	})
}

func TestSkippedRetriesShadowAndCircuitsAreCounted(t *testing.T) {
	doc := upstreams(t,
		orders+`,"retry":{"maxAttempts":2,"backoff":{"initial":"10ms","jitter":"None"}},"circuitBreaker":{"failures":2}`,
		payments+`,"mode":"Shadow","timeouts":{"total":"1s"}`)
	inFakeTime(t, doc, func(t *testing.T, r *prometheus.Registry, h *http.Client) {
		get(t, h, t.Context(), "http://orders/reset")
		get(t, h, t.Context(), "http://payments/slow?delay=2s")
		expect(t, r, `
			retry_skipped_total{client="checkout",reason="attempts",upstream="orders"} 1
			retry_skipped_total{client="checkout",reason="attempts",upstream="payments"} 0
			retry_skipped_total{client="checkout",reason="budget",upstream="orders"} 0
			retry_skipped_total{client="checkout",reason="budget",upstream="payments"} 0
			retry_skipped_total{client="checkout",reason="deadline",upstream="orders"} 0
			retry_skipped_total{client="checkout",reason="deadline",upstream="payments"} 0
			retry_skipped_total{client="checkout",reason="method",upstream="orders"} 0
			retry_skipped_total{client="checkout",reason="method",upstream="payments"} 0
			retry_skipped_total{client="checkout",reason="non_replayable",upstream="orders"} 0
			retry_skipped_total{client="checkout",reason="non_replayable",upstream="payments"} 0
			would_cut_total{client="checkout",limit="total",upstream="payments"} 1
			circuit_state{client="checkout",upstream="orders"} 0`,
			"retry_skipped_total", "would_cut_total", "circuit_state")
		get(t, h, t.Context(), "http://orders/reset")
		get(t, h, t.Context(), "http://orders/ok")
		expect(t, r, `circuit_state{client="checkout",upstream="orders"} 2`, "circuit_state")
		if n := gather(t, r, "timeouts_client_requests_total"); !strings.Contains(n, `outcome="circuit_open"`) {
			t.Errorf("a refused call is not counted:\n%s", n)
		}
	})
}

func TestPolicyIsShownWithRevisionStateAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		s := changing{make(chan *document.Document)}
		client := newClient(t, "checkout", r, s)
		expect(t, r, `policy_info{client="checkout",revision="none",state="Fallback"} 1`, "policy_info")
		if age := gather(t, r, "timeouts_client_policy_age_seconds"); age != "" {
			t.Errorf("no document has an age: %s", age)
		}
		for _, revision := range []string{"sha256:1", "sha256:2"} {
			doc := upstreams(t, orders)
			doc.Revision = revision
			s.documents <- doc
			synctest.Wait()
		}
		<-time.After(90 * time.Second)
		expect(t, r, `
			policy_info{client="checkout",revision="sha256:2",state="Ready"} 1
			policy_age_seconds{client="checkout"} 90
			policy_reloads_total{client="checkout",result="applied"} 2
			policy_reloads_total{client="checkout",result="invalid"} 1
			policy_reloads_total{client="checkout",result="recovered"} 0
			policy_reloads_total{client="checkout",result="rejected"} 0`,
			"policy_info", "policy_age_seconds", "policy_reloads_total")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// fixed is a source that says one thing.
type fixed struct{ update source.Update }

func (s fixed) Run(ctx context.Context, sink func(source.Update)) error {
	sink(s.update)
	<-ctx.Done()
	return nil
}

// A source that stalls in silence says nothing; what it said last grows old.
//
// Case R27.
func TestASourceThatIsNotSureShowsByTheAgeOfItsCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		check := &source.Check{}
		client := newClient(t, "checkout", r, fixed{source.Update{Document: upstreams(t, orders), Check: check}})
		if age := gather(t, r, "timeouts_client_policy_check_age_seconds"); age != "" {
			t.Errorf("a source that never was sure has an age: %s", age)
		}
		check.Mark(time.Now())
		<-time.After(6 * time.Minute)
		expect(t, r, `policy_check_age_seconds{client="checkout"} 360`, "policy_check_age_seconds")
		check.Mark(time.Now())
		expect(t, r, `policy_check_age_seconds{client="checkout"} 0`, "policy_check_age_seconds")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClientsOfAProcessShareARegisterer(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"pod": "a"}, prometheus.NewPedanticRegistry())
	doc := upstreams(t, orders)
	for _, name := range []string{"checkout", "billing", "checkout"} {
		for _, registerer := range []prometheus.Registerer{r, wrapped} {
			client := newClient(t, name, registerer, source.Static(doc))
			defer client.Close()
		}
	}
	revision := doc.Revision
	if revision == "" {
		revision = "none"
	}
	expect(t, r, fmt.Sprintf(`
		policy_info{client="billing",revision=%[1]q,state="Ready"} 1
		policy_info{client="checkout",revision=%[1]q,state="Ready"} 1`, revision), "policy_info")
}

func TestForeignMetricsOfTheSameNameMakeNewFail(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "timeouts_client_inflight"}))
	for _, registerer := range []prometheus.Registerer{r, nil} {
		_, err := clientlib.New(t.Context(), "checkout", clientprom.With(registerer), clientlib.WithReporter(nil))
		if err == nil || !strings.Contains(err.Error(), "clientprom.With") {
			t.Errorf("New returned %v, want an error that names clientprom.With", err)
		}
	}
}

func TestSeriesOfRemovedUpstreamsAndRoutesGo(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	old := newObserver(t, r, "checkout")
	twin := newObserver(t, r, "checkout")
	both := engineWith(old)
	both.Swap(upstreams(t, orders+`,"routes":[{"name":"refunds","match":{"path":"/refunds"}}]`, payments))
	recorders := map[string]engine.Recorder{
		"refunds": old.Recorder("orders", "refunds"), "orders": old.Recorder("orders", ""), "payments": old.Recorder("payments", ""),
	}
	call := func(of string) {
		recorders[of].CallStarted("nethttp")
		recorders[of].AttemptDone(engine.AttemptEvent{Adapter: "nethttp", OK: true, Status: 200})
		recorders[of].CallDone(engine.CallEvent{Adapter: "nethttp", OK: true, Status: 200})
		recorders[of].BodyDone(engine.BodyEvent{Adapter: "nethttp", OK: true, Status: 200})
	}
	for _, name := range []string{"refunds", "orders", "payments"} {
		call(name)
	}
	recorders["payments"].CallStarted("nethttp")

	both.Swap(upstreams(t, orders))
	recorders["payments"].CallDone(engine.CallEvent{Adapter: "nethttp", Kind: failure.Disconnected, Status: -1})
	call("payments")
	call("orders")
	expect(t, r, `
		requests_total{adapter="nethttp",client="checkout",method="GET",outcome="success",route="unknown",status="200",upstream="orders"} 2
		inflight{adapter="nethttp",client="checkout",upstream="orders"} 0`, "requests_total", "inflight")
	assertNoLabel(t, r, "payments")
	assertNoLabel(t, r, "refunds")

	// Another client of the name still has the upstream.
	engineWith(twin).Swap(upstreams(t, orders))
	both.Swap(nil)
	if gather(t, r, "timeouts_client_requests_total") == "" {
		t.Error("the series of a client went with those of its namesake")
	}
}

func assertNoLabel(t *testing.T, r *prometheus.Registry, value string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == value {
					t.Errorf("%s still has a series with %s=%q", f.GetName(), l.GetName(), value)
				}
			}
		}
	}
}

// newObserver makes what the option adds to a client.
func newObserver(t testing.TB, r prometheus.Registerer, name string) engine.Observer {
	t.Helper()
	obs, err := clientprom.NewObserver(r, name)
	if err != nil {
		t.Fatal(err)
	}
	return obs
}

func engineWith(obs engine.Observer) *engine.Engine {
	return engine.New(engine.Options{Observers: []engine.Observer{obs}})
}

func TestNothingThatAPeerOrCallerVariesBecomesALabel(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	obs := newObserver(t, r, "check\xffout")
	engineWith(obs).Swap(upstreams(t, orders))
	rec := obs.Recorder("orders", "")
	for i := range 1000 {
		rec.CallStarted("nethttp")
		rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: fmt.Sprintf("VERB%d", i), Status: 600 + i, OK: true})
		rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: "GET", Route: fmt.Sprintf("/orders/%d", i), Status: 200, OK: true})
		rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: "GET", Route: fmt.Sprintf("\xff%d", i), Status: i - 500, OK: true})
	}
	rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: "GET", Route: strings.Repeat("x", 300), Status: 200, OK: true})
	values := map[string][]string{}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "timeouts_client_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(values[l.GetName()], l.GetValue()) {
					values[l.GetName()] = append(values[l.GetName()], l.GetValue())
				}
			}
		}
	}
	slices.Sort(values["method"])
	if got := values["method"]; !slices.Equal(got, []string{"GET", "_OTHER"}) {
		t.Errorf("methods are %q", got)
	}
	if got := len(values["route"]); got != clientprom.MaxTemplates+1 {
		t.Errorf("%d routes, want %d and unknown", got, clientprom.MaxTemplates)
	}
	if got := len(values["status"]); got != 401 {
		t.Errorf("%d statuses, want 100 to 499 and none: %q", got, values["status"])
	}
}

func TestGRPCCodesKeepTheirNames(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	obs := newObserver(t, r, "checkout")
	engineWith(obs).Swap(upstreams(t, orders))
	rec := obs.Recorder("orders", "")
	rec.CallStarted("grpc")
	rec.CallDone(engine.CallEvent{Adapter: "grpc", Method: "/shop.Orders/Get", Kind: failure.Status, Status: 14})
	expect(t, r, `requests_total{adapter="grpc",client="checkout",method="_OTHER",outcome="status",route="unknown",status="UNAVAILABLE",upstream="orders"} 1`, "requests_total")
}

func TestCountingAKnownCallDoesNotAllocate(t *testing.T) {
	obs := newObserver(t, prometheus.NewRegistry(), "checkout")
	engineWith(obs).Swap(upstreams(t, orders))
	rec := obs.Recorder("orders", "")
	allocs := testing.AllocsPerRun(1000, func() {
		rec.CallStarted("nethttp")
		rec.AttemptDone(engine.AttemptEvent{Adapter: "nethttp", Method: "GET", Route: "/orders/{id}", OK: true, Status: 200, Duration: time.Millisecond})
		rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: "GET", Route: "/orders/{id}", OK: true, Status: 200, Duration: time.Millisecond})
		rec.BodyDone(engine.BodyEvent{Adapter: "nethttp", Method: "GET", Route: "/orders/{id}", OK: true, Status: 200, Duration: time.Millisecond})
	})
	if allocs != 0 {
		t.Errorf("%v allocations for each call, want none", allocs)
	}
}

func TestCountsAddUpUnderConcurrencyAndReloads(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	obs := newObserver(t, r, "checkout")
	e := engineWith(obs)
	e.Swap(upstreams(t, orders))
	rec := obs.Recorder("orders", "")
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				rec.CallStarted("nethttp")
				rec.CallDone(engine.CallEvent{Adapter: "nethttp", Method: "GET", Status: 100 + (i*g)%400, OK: true})
				if i%50 == 0 {
					e.Swap(upstreams(t, orders))
					_, _ = r.Gather()
				}
			}
		})
	}
	all.Wait()
	sum := 0.0
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "timeouts_client_requests_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	if sum != 1600 {
		t.Errorf("%v calls counted, want 1600", sum)
	}
}

func TestMetricsPassTheLinter(t *testing.T) {
	doc := upstreams(t, orders+`,"circuitBreaker":{}`)
	inFakeTime(t, doc, func(t *testing.T, r *prometheus.Registry, h *http.Client) {
		get(t, h, clientlib.WithCall(t.Context(), clientlib.Route("/ok")), "http://orders/ok")
		problems, err := testutil.GatherAndLint(r)
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
	})
}
