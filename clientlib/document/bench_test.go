package document

import (
	"fmt"
	"testing"
)

// largeDocument has n upstreams of the usual kind.
func largeDocument(n int) *Document {
	d := &Document{Schema: Schema, Namespace: "shop", Client: "checkout"}
	for i := range n {
		name := fmt.Sprintf("u%04d", i)
		d.Policies = append(d.Policies, PolicyRef{Namespace: "shop", Name: name, UID: "uid-" + name, Generation: 1})
		d.Upstreams = append(d.Upstreams, Upstream{
			Name: name, Hosts: []string{name + ".example.com", name + ".shop.svc.cluster.local:8080"},
			Rules: Rules{
				Timeouts: &Timeouts{Total: ms(2000), Attempt: ms(400)},
				Retry:    &Retry{MaxAttempts: ptr(3), RetryableKinds: []string{"AttemptTimeout", "ConnectError"}},
			},
			Provenance: map[string]string{"timeouts.total": "shop/a@1", "timeouts.attempt": "shop/a@1", "retry.maxAttempts": "shop/a@1", "retry.retryableKinds": "shop/b@7"},
		})
	}
	return d
}

func benchmarkSizes(b *testing.B, run func(b *testing.B, d *Document, data []byte)) {
	for _, n := range []int{1, 100, 1500} {
		b.Run(fmt.Sprintf("upstreams=%d", n), func(b *testing.B) {
			d := largeDocument(n)
			data, err := Render(d)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			run(b, d, data)
		})
	}
}

func BenchmarkParse(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, _ *Document, data []byte) {
		for b.Loop() {
			if _, err := Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, d *Document, _ []byte) {
		for b.Loop() {
			if _, err := Render(d); err != nil {
				b.Fatal(err)
			}
		}
	})
}
