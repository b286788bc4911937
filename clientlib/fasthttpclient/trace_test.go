package fasthttpclient_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
	"github.com/valyala/fasthttp"
)

// diary is a tracer that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) StartCall(_ context.Context, info engine.CallInfo) engine.Trace {
	d.note("call %s %s %s of %q", info.Adapter, info.Method, info.URL, info.Upstream)
	return d
}

func (d *diary) StartAttempt(ctx context.Context, info engine.AttemptInfo, c engine.Carrier) context.Context {
	c.Set("Traceparent", fmt.Sprintf("attempt-%d", info.Number))
	d.note("attempt %d %s, %t", info.Number, info.URL, c.Get("Traceparent") != "" && slices.Contains(c.Keys(), "Traceparent"))
	return ctx
}

func (d *diary) AttemptDone(e engine.AttemptEvent)      { d.note("attempt %d done", e.Number) }
func (d *diary) CallDone(e engine.CallEvent)            { d.note("call done %d", e.Status) }
func (d *diary) End(_ time.Time, body engine.BodyEvent) { d.note("end %t", body.OK) }
func (d *diary) written() string                        { return strings.Join(d.lines, "; ") }
func (d *diary) client(t *testing.T, text string, streamed bool, test func(*fasthttpclient.Client, *clienttest.Origin)) {
	synctest.Test(t, func(t *testing.T) {
		origin := &clienttest.Origin{}
		network := clienttest.NewNetwork(origin)
		policy, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(source.Static(rules(t, text))),
			clientlib.WithReporter(nil), clientlib.WithTracer(d), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		client, err := fasthttpclient.New(policy, &fasthttp.Client{
			StreamResponseBody: streamed,
			Dial:               func(addr string) (net.Conn, error) { return network.Dial(context.Background(), "tcp", addr) },
		})
		if err != nil {
			t.Fatal(err)
		}
		test(client, origin)
		client.CloseIdleConnections()
		_ = policy.Close()
		_ = network.Close()
		<-time.After(time.Minute) // of the bubble: fasthttp's cleaners end
	})
}

func TestTracesAreInjectedAndEndWithTheBody(t *testing.T) {
	const url = "http://orders/status?times=1"
	want := "call fasthttp GET " + url + ` of "orders"; attempt 1 ` + url + ", true; attempt 1 done; attempt 2 " + url +
		", true; attempt 2 done; call done 200; end true"
	for mode, streamed := range map[string]bool{"buffered": false, "streamed": true} {
		t.Run(mode, func(t *testing.T) {
			d := &diary{}
			d.client(t, threeAttempts, streamed, func(c *fasthttpclient.Client, origin *clienttest.Origin) {
				x := request("GET", url)
				if err := c.Do(context.Background(), x.Request, x.Response); err != nil {
					t.Fatal(err)
				}
				_ = x.Response.Body()
				var told []string
				for _, h := range origin.Headers() {
					told = append(told, h.Get("Traceparent"))
				}
				if !slices.Equal(told, []string{"attempt-1", "attempt-2"}) || len(x.Request.Header.Peek("Traceparent")) != 0 {
					t.Errorf("the server was told %q, the caller's request says %q", told, x.Request.Header.Peek("Traceparent"))
				}
			})
			if d.written() != want {
				t.Errorf("written:\n%s\nwant:\n%s", d.written(), want)
			}
		})
	}
}

func TestATraceEndsWithABodyThatIsCutThoughNobodyReadsIt(t *testing.T) {
	d := &diary{}
	d.client(t, `"timeouts":{"total":"1s"}`, true, func(c *fasthttpclient.Client, _ *clienttest.Origin) {
		x := request("GET", "http://orders/drip?n=100&every=1s")
		if err := c.Do(context.Background(), x.Request, x.Response); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
	})
	if !strings.HasSuffix(d.written(), "call done 200; end false") {
		t.Errorf("written: %s", d.written())
	}
}

func TestCallsOfHostsWithoutAPolicyAreTracedToo(t *testing.T) {
	d := &diary{}
	d.client(t, `"timeouts":{"total":"1s"}`, false, func(c *fasthttpclient.Client, _ *clienttest.Origin) {
		x := request("GET", "http://elsewhere/ok")
		if err := c.Do(context.Background(), x.Request, x.Response); err != nil {
			t.Fatal(err)
		}
	})
	if !strings.HasPrefix(d.written(), `call fasthttp GET http://elsewhere/ok of ""`) || !strings.HasSuffix(d.written(), "end true") {
		t.Errorf("written: %s", d.written())
	}
}

// A trace is told of an attempt's beginning before its end, also where there never
// was a connection.
func TestATraceBeginsBeforeTheConnection(t *testing.T) {
	d := &diary{}
	policy, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(source.Static(rules(t, threeAttempts, "127.0.0.1"))),
		clientlib.WithReporter(nil), clientlib.WithTracer(d), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer policy.Close()
	client, err := fasthttpclient.New(policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	const url = "http://127.0.0.1:1/"
	x := request("GET", url)
	if client.Do(t.Context(), x.Request, x.Response) == nil {
		t.Error("somebody listens on port 1")
	}
	want := "call fasthttp GET " + url + ` of "orders"`
	for n := range 3 {
		want += fmt.Sprintf("; attempt %d %s, true; attempt %d done", n+1, url, n+1)
	}
	if want += "; call done -1; end true"; d.written() != want {
		t.Errorf("written:\n%s\nwant:\n%s", d.written(), want)
	}
}
