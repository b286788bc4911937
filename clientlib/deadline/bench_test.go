package deadline_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

func BenchmarkMiddleware(b *testing.B) {
	mw := deadline.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		deadline.TrustPrefixes(netip.MustParsePrefix("10.0.0.0/8")))
	for _, c := range []struct{ name, peer, said string }{
		{"no deadline", cluster, ""}, {"trusted", cluster, "4980"}, {"untrusted", "203.0.113.9:1", "4980"}, {"malformed", cluster, "-1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.RemoteAddr = c.peer
			if c.said != "" {
				req.Header.Set("X-Deadline-Ms", c.said)
			}
			b.ReportAllocs()
			for b.Loop() {
				mw.ServeHTTP(nil, req)
			}
		})
	}
}

func BenchmarkBudget(b *testing.B) {
	now := time.Now()
	ctx := deadline.WithSource(deadline.Until(b.Context(), now.Add(time.Minute)), deadline.Fixed{End: now.Add(time.Second)})
	b.Run("nest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			deadline.Until(ctx, now.Add(time.Millisecond))
		}
	})
	b.Run("look", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			deadline.EndAt(ctx, now)
		}
	})
}
