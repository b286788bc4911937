package deadline_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

func ExampleWith() {
	ctx := deadline.With(context.Background(), 5*time.Second)
	inner := deadline.With(ctx, time.Minute) // cannot lengthen
	left, ok := deadline.Remaining(inner)
	fmt.Println(left.Round(time.Second), ok)

	// Work that outlives the request has no budget of its own.
	_, ok = deadline.Remaining(deadline.Detach(inner))
	fmt.Println(ok)
	// Output:
	// 5s true
	// false
}

// message is a queue's message, which comes back if it is not done in time.
type message struct{ visible time.Duration }

func (m message) Remaining() time.Duration { return m.visible }
func (m message) Expired() bool            { return m.visible <= 0 }

func ExampleWithSource() {
	ctx := deadline.WithSource(context.Background(), message{visible: 30 * time.Second})
	left, _ := deadline.Remaining(ctx)
	fmt.Println(left.Round(time.Second))
	// Output: 30s
}

func ExampleMiddleware() {
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		left, ok := deadline.Remaining(r.Context())
		fmt.Println(left.Round(100*time.Millisecond), ok)
	})
	server := deadline.Middleware(handler,
		deadline.TrustPrefixes(netip.MustParsePrefix("10.0.0.0/8")), // our pods, and nobody else
		deadline.RefuseSpent())

	for _, peer := range []string{"10.1.2.3:55555", "203.0.113.9:55555"} {
		req := httptest.NewRequest(http.MethodGet, "/orders", nil)
		req.RemoteAddr = peer
		req.Header.Set("X-Deadline-Ms", "2000")
		server.ServeHTTP(httptest.NewRecorder(), req)
	}
	// Output:
	// 2s true
	// 0s false
}

// A request that no adapter makes, to a peer behind Envoy.
func ExampleStamp() {
	ctx := deadline.With(context.Background(), 90*time.Second)
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://legacy/", nil)
	deadline.Stamp(ctx, req.Header, 500*time.Millisecond, deadline.EnvoyExpected())
	var left int
	fmt.Sscan(req.Header.Get("X-Envoy-Expected-Rq-Timeout-Ms"), &left)
	fmt.Println(left > 89000 && left <= 89500)
	// Output: true
}
