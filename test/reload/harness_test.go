package reload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/volume/util"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// volume is a ConfigMap volume as the kubelet keeps it.
type volume struct {
	t      *testing.T
	writer *util.AtomicWriter
}

func newVolume(t *testing.T, dir string) *volume {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	w, err := util.NewAtomicWriter(dir, t.Name())
	must(t, err)
	return &volume{t, w}
}

// write makes the keys the content of the volume and returns when that was done.
func (v *volume) write(keys map[string][]byte) time.Time {
	v.t.Helper()
	payload := map[string]util.FileProjection{}
	for key, data := range keys {
		payload[key] = util.FileProjection{Data: data, Mode: 0o644}
	}
	must(v.t, v.writer.Write(payload, nil))
	return time.Now()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDocument renders a document whose limits belong together: a reader that
// sees limits of two documents notices.
func newDocument(t *testing.T, client string, n int) (data []byte, revision string) {
	t.Helper()
	attempt := document.Duration(time.Duration(n+1) * time.Second)
	total := 10 * attempt
	d := &document.Document{
		Namespace: "shop", Client: client,
		Policies:  []document.PolicyRef{{Namespace: "shop", Name: "checkout", UID: "u", Generation: int64(n)}},
		Upstreams: []document.Upstream{{Name: "orders", Hosts: []string{"orders"}, Rules: document.Rules{Timeouts: &document.Timeouts{Total: &total, Attempt: &attempt}}}},
	}
	data, err := document.Render(d)
	must(t, err)
	return data, document.Revision(d)
}

func newTombstone(t *testing.T) []byte {
	t.Helper()
	data, err := document.Render(&document.Document{Namespace: "shop", Tombstone: true})
	must(t, err)
	return data
}

// consistent reports whether a document is one that was written as a whole.
func consistent(d *document.Document) bool {
	if d.Tombstone {
		return len(d.Upstreams) == 0
	}
	limits := d.Upstreams[0].Timeouts
	return *limits.Total == 10**limits.Attempt && d.Policies[0].Generation == int64(*limits.Attempt/document.Duration(time.Second))-1
}

// follower is a source that keeps what another one said, after its client has
// seen it.
type follower struct {
	source.Source
	current atomic.Pointer[source.Update]
	changed chan struct{} // one token when there is news
	updates atomic.Int64
}

func newFollower(s source.Source) *follower {
	return &follower{Source: s, changed: make(chan struct{}, 1)}
}

func (f *follower) Run(ctx context.Context, sink func(source.Update)) error {
	return f.Source.Run(ctx, func(u source.Update) {
		sink(u)
		f.updates.Add(1)
		f.current.Store(&u)
		select {
		case f.changed <- struct{}{}:
		default:
		}
	})
}

// follow runs a source without a client.
func follow(t *testing.T, s source.Source) *follower {
	t.Helper()
	f := newFollower(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx, func(source.Update) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return f
}

// until waits for a state and returns when it was there.
func (f *follower) until(reached func(*source.Update) bool) time.Time {
	for {
		if u := f.current.Load(); u != nil && reached(u) {
			return time.Now()
		}
		<-f.changed
	}
}

func describe(u *source.Update) string {
	return fmt.Sprintf("document %v, reason %q, delivery %s, error %v", u.Document != nil, u.Reason, u.Delivery, u.Err)
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func documentKey(data []byte) map[string][]byte {
	return map[string][]byte{source.DocumentKey: data}
}

func clientDir(root string) string    { return filepath.Join(root, "client") }
func namespaceDir(root string) string { return filepath.Join(root, "namespace") }
