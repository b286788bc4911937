package fasthttpclient_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
	"github.com/valyala/fasthttp"
)

// everything is a policy of which nothing passes.
const everything = `"timeouts":{"total":"1m","attempt":"50s","connect":"40s","responseHeader":"30s","bodyIdle":"20s"},` +
	`"deadline":{"header":"X-Deadline-Ms"},` + threeAttempts + `,"circuitBreaker":{}`

// prompt answers each request on a connection at once, without an allocation.
func prompt(conn net.Conn) {
	br := bufio.NewReader(conn)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok")
	for {
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// calls returns what makes one call under a policy, and one of fasthttp's own.
func calls(ctx context.Context, t testing.TB, doc *document.Document) (under, native func()) {
	addr := serve(t, prompt)
	policy, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policy.Close() })
	client, err := fasthttpclient.New(policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := &fasthttp.Client{}
	t.Cleanup(client.CloseIdleConnections)
	t.Cleanup(bare.CloseIdleConnections)
	call := func(do func(*fasthttp.Request, *fasthttp.Response) error) func() {
		return func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.SetRequestURI("http://" + addr + "/")
			if err := do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v", err)
			}
			fasthttp.ReleaseRequest(req)
			fasthttp.ReleaseResponse(resp)
		}
	}
	under = call(func(req *fasthttp.Request, resp *fasthttp.Response) error { return client.Do(ctx, req, resp) })
	native = call(func(req *fasthttp.Request, resp *fasthttp.Response) error {
		return bare.DoTimeout(req, resp, time.Minute)
	})
	return under, native
}

// A bar, so that a call does not become dear unnoticed. The race detector makes
// pools forget, fasthttp's too.
func TestAllocations(t *testing.T) {
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []struct {
		name string
		doc  *document.Document
		ctx  context.Context
		bar  float64
	}{
		{"a host that no policy names", rules(t, "", "elsewhere"), context.Background(), 1},
		{"the same with a context that can end", rules(t, "", "elsewhere"), cancellable, 5},
		{"total", rules(t, `"timeouts":{"total":"1m"}`, "127.0.0.1"), context.Background(), 3},
		{"total with a context that can end", rules(t, `"timeouts":{"total":"1m"}`, "127.0.0.1"), cancellable, 5},
		{"everything", rules(t, everything, "127.0.0.1"), cancellable, 8},
	} {
		under, native := calls(c.ctx, t, c.doc)
		own := testing.AllocsPerRun(200, native)
		got := testing.AllocsPerRun(200, under) - own
		t.Logf("%s: %v allocations more than fasthttp", c.name, got)
		if bar := c.bar * pools; got > bar {
			t.Errorf("%s: %v allocations more than fasthttp, the bar is %v", c.name, got, bar)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	doc := func(text string) *document.Document { return rules(b, text, "127.0.0.1") }
	run := func(name string, call func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	under, native := calls(ctx, b, doc(`"timeouts":{"total":"1m"}`))
	run("fasthttp with DoTimeout", native)
	run("total", under)
	under, _ = calls(ctx, b, doc(everything))
	run("everything", under)
	under, _ = calls(context.Background(), b, rules(b, "", "elsewhere"))
	run("no policy", under)
}
