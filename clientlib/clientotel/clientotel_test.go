package clientotel_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clientotel"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const threeAttempts = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`

// bench is a traced client and a misbehaving server, in fake time.
type bench struct {
	t      *testing.T
	http   *http.Client
	origin *clienttest.Origin
	spans  *tracetest.SpanRecorder
	start  time.Time
}

func inFakeTime(t *testing.T, rules string, opts []clientotel.Option, test func(b *bench)) {
	t.Helper()
	doc, err := document.Parse([]byte(fmt.Sprintf(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"],%s}]}`, rules)))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, origin: &clienttest.Origin{}, spans: tracetest.NewSpanRecorder(), start: time.Now()}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans))
		opts := append(opts, clientotel.WithPropagator(propagation.TraceContext{}))
		network := clienttest.NewNetwork(b.origin)
		client, err := clientlib.New(t.Context(), "checkout", clientotel.With(provider, opts...),
			clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		b.http = &http.Client{Transport: nethttp.NewTransport(client, network.Transport())}
		test(b)
		b.http.CloseIdleConnections()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := network.Close(); err != nil {
			t.Error(err)
		}
		if n, m := len(b.spans.Started()), len(b.spans.Ended()); n != m {
			t.Errorf("%d spans started and %d ended", n, m)
		}
	})
}

func (b *bench) get(ctx context.Context, url string) (*http.Response, error) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Mine", "kept")
	before := req.Header.Clone()
	resp, err := b.http.Do(req)
	if fmt.Sprint(req.Header) != fmt.Sprint(before) {
		b.t.Errorf("the caller's headers became %v", req.Header)
	}
	return resp, err
}

func (b *bench) getAll(url string) {
	b.t.Helper()
	resp, err := b.get(b.t.Context(), url)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// only returns the one span that ended.
func (b *bench) only() sdktrace.ReadOnlySpan {
	b.t.Helper()
	synctest.Wait()
	if n := len(b.spans.Ended()); n != 1 {
		b.t.Fatalf("%d spans ended, want 1", n)
	}
	return b.spans.Ended()[0]
}

func attributes(list []attribute.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		m[string(kv.Key)] = kv.Value.Emit()
	}
	return m
}

// wantAttributes compares a span with what it must say, nothing else being
// there.
func wantAttributes(t *testing.T, span sdktrace.ReadOnlySpan, want map[string]string) {
	t.Helper()
	if got := attributes(span.Attributes()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes of %q are\n%v, want\n%v", span.Name(), got, want)
	}
}

func TestCallIsOneClientSpanInTheConventions(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"5s"}`, nil, func(b *bench) {
		ctx := clientlib.WithCall(b.t.Context(), clientlib.Route("/status"))
		resp, err := b.get(ctx, "http://user:secret@orders:8080/status?code=404&token=secret&secret#secret")
		if err != nil {
			b.t.Fatal(err)
		}
		if n := len(b.spans.Ended()); n != 0 {
			b.t.Errorf("the span ended before the body did")
		}
		_ = resp.Body.Close()
		span := b.only()
		if span.Name() != "GET /status" || span.SpanKind() != trace.SpanKindClient || span.Status().Code != codes.Error {
			b.t.Errorf("got %q, %v, %v", span.Name(), span.SpanKind(), span.Status())
		}
		wantAttributes(b.t, span, map[string]string{
			"http.request.method":       "GET",
			"http.response.status_code": "404",
			"error.type":                "404",
			"server.address":            "orders",
			"server.port":               "8080",
			"url.full":                  "http://REDACTED:REDACTED@orders:8080/status?code=REDACTED&token=REDACTED&REDACTED",
			"timeouts.upstream":         "orders",
			"timeouts.route":            "/status",
			"timeouts.outcome":          "status",
		})
	})
}

func TestAttemptsAreEventsAtTheirEnd(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+threeAttempts, nil, func(b *bench) {
		b.getAll("http://orders/hang")
		span := b.only()
		wantAttributes(b.t, span, map[string]string{
			"http.request.method":       "GET",
			"http.request.resend_count": "2",
			"error.type":                "total_timeout",
			"server.address":            "orders",
			"server.port":               "80",
			"url.full":                  "http://orders/hang",
			"timeouts.upstream":         "orders",
			"timeouts.outcome":          "total_timeout",
			"timeouts.source":           "policy",
		})
		var events []string
		for _, e := range span.Events() {
			a := attributes(e.Attributes)
			events = append(events, fmt.Sprintf("%s %s %s %s wait=%s", e.Time.Sub(b.start), e.Name, a["timeouts.attempt"], a["timeouts.outcome"], a["timeouts.retry_wait_ms"]))
		}
		want := []string{"400ms attempt 1 attempt_timeout wait=10", "810ms attempt 2 attempt_timeout wait=20", "1s attempt 3 total_timeout wait="}
		if !slices.Equal(events, want) {
			b.t.Errorf("events are\n%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
		}
		if end := span.EndTime().Sub(b.start); end != time.Second {
			b.t.Errorf("the span ended after %s", end)
		}
	})
}

func TestContextIsInjectedIntoEachAttempt(t *testing.T) {
	for name, opts := range map[string][]clientotel.Option{"events": nil, "spans": {clientotel.WithAttemptSpans()}} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, `"deadline":{"header":"X-Deadline-Ms"},"timeouts":{"total":"1s"},`+threeAttempts, opts, func(b *bench) {
				b.getAll("http://orders/status?code=503&times=2")
				synctest.Wait()
				clients := map[string]bool{}
				for _, s := range b.spans.Ended() {
					if s.SpanKind() == trace.SpanKindClient {
						clients["00-"+s.SpanContext().TraceID().String()+"-"+s.SpanContext().SpanID().String()+"-01"] = true
					}
				}
				seen := map[string]bool{}
				for _, h := range b.origin.Headers() {
					if h.Get("X-Mine") != "kept" || h.Get("X-Deadline-Ms") == "" {
						b.t.Errorf("headers were lost: %v", h)
					}
					seen[h.Get("Traceparent")] = true
				}
				if fmt.Sprint(seen) != fmt.Sprint(clients) {
					b.t.Errorf("the server saw %v, want the client spans %v", seen, clients)
				}
				if want := map[string]int{"events": 1, "spans": 3}[name]; len(seen) != want {
					b.t.Errorf("%d contexts, want %d", len(seen), want)
				}
			})
		})
	}
}

// otel-contrib#4895 #7492: what a body still writes does not race with a span that
// ended at the headers.
func TestAttemptSpansEndAtTheHeadersAndTheCallWithItsBody(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"5s"},`+threeAttempts, []clientotel.Option{clientotel.WithAttemptSpans()}, func(b *bench) {
		b.getAll("http://orders/redirect?n=1&delay=100ms&to=" + url.QueryEscape("/drip?n=2&every=500ms"))
		synctest.Wait()
		var lines []string
		for _, s := range b.spans.Ended() {
			a := attributes(s.Attributes())
			lines = append(lines, fmt.Sprintf("%s %s %s..%s resend=%s", s.SpanKind(), a["http.response.status_code"],
				s.StartTime().Sub(b.start), s.EndTime().Sub(b.start), a["http.request.resend_count"]))
			if s.SpanKind() == trace.SpanKindClient && s.Parent().SpanID() != b.spans.Ended()[2].SpanContext().SpanID() {
				b.t.Errorf("an attempt is not a child of its call")
			}
		}
		want := []string{"client 307 0s..100ms resend=", "client 200 100ms..100ms resend=1", "internal 200 0s..1.1s resend="}
		if !slices.Equal(lines, want) {
			b.t.Errorf("spans are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

// opencensus-go#326: also where nobody closes the body.
func TestSpanEndsWithItsBodyHoweverThatEnds(t *testing.T) {
	const dripping = "http://orders/drip?n=8&every=400ms"
	cases := []struct {
		name  string
		use   func(b *bench, resp *http.Response, cancel func())
		end   time.Duration
		error string
	}{
		{"closed early", func(_ *bench, resp *http.Response, _ func()) {
			<-time.After(500 * time.Millisecond)
			_ = resp.Body.Close()
		}, 500 * time.Millisecond, ""},
		{"cut by the total", func(_ *bench, resp *http.Response, _ func()) {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}, time.Second, "total_timeout"},
		{"forgotten by the caller", func(*bench, *http.Response, func()) {
			<-time.After(2 * time.Second)
		}, time.Second, "total_timeout"},
		{"cancelled by the caller", func(_ *bench, _ *http.Response, cancel func()) {
			<-time.After(300 * time.Millisecond)
			cancel()
		}, 300 * time.Millisecond, "cancelled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, `"timeouts":{"total":"1s"}`, nil, func(b *bench) {
				ctx, cancel := context.WithCancel(b.t.Context())
				defer cancel()
				resp, err := b.get(ctx, dripping)
				if err != nil {
					b.t.Fatal(err)
				}
				c.use(b, resp, cancel)
				span := b.only()
				if end := span.EndTime().Sub(b.start); end != c.end {
					b.t.Errorf("the span ended after %s, want %s", end, c.end)
				}
				if got := attributes(span.Attributes())["error.type"]; got != c.error {
					b.t.Errorf("error.type %q, want %q", got, c.error)
				}
			})
		})
	}
}

func TestRedirectThatNobodyFollowsStillEnds(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"5s"}`, nil, func(b *bench) {
		b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		b.getAll("http://orders/redirect")
		<-time.After(2 * time.Second)
		if span := b.only(); !span.EndTime().Equal(b.start) {
			b.t.Errorf("the span ended at %s, want the end of the body", span.EndTime().Sub(b.start))
		}
	})
}

func TestRefusedCallsAndUnnamedHostsAreTracedToo(t *testing.T) {
	inFakeTime(t, `"circuitBreaker":{"failures":1}`, nil, func(b *bench) {
		b.getAll("http://orders/reset")
		b.getAll("http://orders/ok")
		b.getAll("http://elsewhere/ok")
		synctest.Wait()
		var got []string
		for _, s := range b.spans.Ended() {
			a := attributes(s.Attributes())
			got = append(got, a["server.address"]+" "+a["timeouts.outcome"]+" "+a["timeouts.upstream"])
		}
		if want := []string{"orders disconnected orders", "orders circuit_open orders", "elsewhere success "}; !slices.Equal(got, want) {
			b.t.Errorf("spans %q, want %q", got, want)
		}
	})
}

func TestCallersSpanIsTheParent(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"5s"}`, nil, func(b *bench) {
		provider := sdktrace.NewTracerProvider()
		ctx, parent := provider.Tracer("test").Start(b.t.Context(), "checkout")
		resp, err := b.get(ctx, "http://orders/ok")
		if err != nil {
			b.t.Fatal(err)
		}
		_ = resp.Body.Close()
		parent.End()
		if span := b.only(); span.Parent().SpanID() != parent.SpanContext().SpanID() {
			b.t.Error("the call is not a child of the caller's span")
		}
	})
}

func TestUnknownMethodsAreOneName(t *testing.T) {
	inFakeTime(t, `"timeouts":{"total":"5s"}`, nil, func(b *bench) {
		req, err := http.NewRequestWithContext(b.t.Context(), "BREW", "http://orders/ok", nil)
		if err != nil {
			b.t.Fatal(err)
		}
		resp, err := b.http.Do(req)
		if err != nil {
			b.t.Fatal(err)
		}
		_ = resp.Body.Close()
		span := b.only()
		a := attributes(span.Attributes())
		if span.Name() != "HTTP" || a["http.request.method"] != "_OTHER" || a["http.request.method_original"] != "BREW" {
			b.t.Errorf("span %q with %v", span.Name(), a)
		}
	})
}

func TestGRPCCallsFollowTheConventionsOfRPCs(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := clientotel.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	carrier := propagation.MapCarrier{}
	call := tracer.StartCall(t.Context(), engine.CallInfo{Adapter: "grpc", Upstream: "orders", Method: "/shop.Orders/Get", URL: &url.URL{Host: "orders:9090"}})
	call.StartAttempt(t.Context(), engine.AttemptInfo{Number: 1}, carrier)
	call.AttemptDone(engine.AttemptEvent{Adapter: "grpc", Number: 1, Kind: failure.Status, Status: 14})
	call.CallDone(engine.CallEvent{Adapter: "grpc", Attempts: 3, Kind: failure.Status, Status: 14})
	call.End(time.Now(), engine.BodyEvent{OK: true})
	span := spans.Ended()[0]
	if span.Name() != "shop.Orders/Get" {
		t.Errorf("the span is called %q", span.Name())
	}
	wantAttributes(t, span, map[string]string{
		"error.type":               "UNAVAILABLE",
		"rpc.method":               "shop.Orders/Get",
		"rpc.response.status_code": "UNAVAILABLE",
		"rpc.system.name":          "grpc",
		"server.address":           "orders",
		"server.port":              "9090",
		"timeouts.outcome":         "status",
		"timeouts.resend_count":    "2",
		"timeouts.upstream":        "orders",
	})
}
