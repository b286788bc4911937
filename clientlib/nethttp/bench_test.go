package nethttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// What the engine costs beside a bare http.Client. Allocations are a bar, held by
// TestAllocations; times are reported only:
//
//	go test -run '^$' -bench . -benchmem ./nethttp

// fullRules are all mechanisms of a call whose first attempt succeeds.
const fullRules = `"timeouts":{"total":"10s","attempt":"5s"},
	"retry":{"maxAttempts":3,"budget":{"percent":10,"burst":10}},"circuitBreaker":{"failures":5}`

// stub answers without a network.
type stub struct{}

type stubBody struct{ strings.Reader }

func (*stubBody) Close() error { return nil }

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	body := new(stubBody)
	body.Reset("ok")
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: 2, Request: req,
	}, nil
}

// quiet is an observer that does nothing, as one that only moves counters.
type quiet struct{}

func (quiet) Recorder(string, string) engine.Recorder { return quiet{} }
func (quiet) CallStarted(string)                      {}
func (quiet) AttemptDone(engine.AttemptEvent)         {}
func (quiet) CallDone(engine.CallEvent)               {}
func (quiet) BodyDone(engine.BodyEvent)               {}
func (quiet) WouldCut(string)                         {}
func (quiet) CircuitChanged(engine.CircuitState)      {}

// under returns a client under rules for the host "orders", on top of base.
func under(t testing.TB, doc *document.Document, base http.RoundTripper) *http.Client {
	t.Helper()
	e := engine.New(engine.Options{Observers: []engine.Observer{quiet{}}})
	e.Swap(doc)
	return &http.Client{Transport: nethttp.New(e, base)}
}

// call makes one request and reads its body.
func call(t testing.TB, c *http.Client, req *http.Request, buffer []byte) {
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = resp.Body.Read(buffer)
	}
	_ = resp.Body.Close()
	if err != io.EOF {
		t.Fatal(err)
	}
}

func newRequest(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func benchmark(b *testing.B, c *http.Client, req *http.Request) {
	buffer := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		call(b, c, req, buffer)
	}
}

func BenchmarkStub(b *testing.B) {
	req := newRequest(b, "http://orders/")
	b.Run("bare", func(b *testing.B) { benchmark(b, &http.Client{Transport: stub{}}, req) })
	b.Run("context.WithTimeout", func(b *testing.B) {
		c, buffer := &http.Client{Transport: stub{}}, make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			call(b, c, req.WithContext(ctx), buffer)
			cancel()
		}
	})
	b.Run("Client.Timeout", func(b *testing.B) {
		benchmark(b, &http.Client{Transport: stub{}, Timeout: 10 * time.Second}, req)
	})
	b.Run("no policy", func(b *testing.B) { benchmark(b, under(b, nil, stub{}), req) })
	b.Run("total", func(b *testing.B) { benchmark(b, under(b, rules(b, `"timeouts":{"total":"10s"}`), stub{}), req) })
	b.Run("all", func(b *testing.B) { benchmark(b, under(b, rules(b, fullRules), stub{}), req) })
	b.Run("all and header", func(b *testing.B) {
		benchmark(b, under(b, rules(b, fullRules+`,"deadline":{"header":"X-Deadline-Ms"}`), stub{}), req)
	})
	b.Run("all, parallel", func(b *testing.B) {
		c := under(b, rules(b, fullRules), stub{})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			buffer := make([]byte, 64)
			for pb.Next() {
				call(b, c, req, buffer)
			}
		})
	})
}

func BenchmarkLoopback(b *testing.B) {
	server, base := serve(b, "HTTP/1.1", http.HandlerFunc(mirror))
	defer base.CloseIdleConnections()
	req := newRequest(b, server+"/204")
	b.Run("bare", func(b *testing.B) { benchmark(b, &http.Client{Transport: base}, req) })
	b.Run("context.WithTimeout", func(b *testing.B) {
		c, buffer := &http.Client{Transport: base}, make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			call(b, c, req.WithContext(ctx), buffer)
			cancel()
		}
	})
	b.Run("all", func(b *testing.B) { benchmark(b, under(b, loopbackRules(b, fullRules), base), req) })
	b.Run("all and phases", func(b *testing.B) {
		phases := strings.Replace(fullRules, `"attempt":"5s"`, `"attempt":"5s","connect":"1s","responseHeader":"4s","bodyIdle":"4s"`, 1)
		benchmark(b, under(b, loopbackRules(b, phases), base), req)
	})
}
