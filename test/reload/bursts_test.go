package reload

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A thousand updates in bursts, with keys added and removed, good documents,
// broken ones and tombstones among them, while 64 readers use what is in force:
// the final state of every burst is applied, soon; nobody sees a mix or loses
// the policy; nothing piles up.
func TestBurstsOfUpdates(t *testing.T) {
	const updates, readers = 1000, 64
	root := t.TempDir()
	client, namespace := newVolume(t, clientDir(root)), newVolume(t, namespaceDir(root))
	fallback, fallbackRevision := newDocument(t, "", 0)
	namespace.write(documentKey(fallback))
	first, firstRevision := newDocument(t, "checkout", 0)
	client.write(documentKey(first))

	f := follow(t, source.Dir(root))
	f.until(func(u *source.Update) bool { return u.Document != nil && u.Document.Revision == firstRevision })
	stopReaders := startReaders(t, f, readers)
	// One change, so that everything that is made once is there.
	w := &bursts{t: t, f: f, rng: rand.New(rand.NewPCG(1, 2)), volume: client, fallback: fallbackRevision}
	w.burst(1)
	fds, goroutines := descriptors(t), runtime.NumGoroutine()

	w.latencies = nil
	for written := 0; written < updates; {
		n := min(updates-written, []int{1, 1, 2, 5, 20, 50, 100}[w.rng.IntN(7)])
		w.burst(n)
		written += n
	}

	if now := descriptors(t); now != fds {
		t.Errorf("%d descriptors, %d before the updates", now, fds)
	}
	if now := runtime.NumGoroutine(); now != goroutines {
		t.Errorf("%d goroutines, %d before the updates", now, goroutines)
	}
	stopReaders()
	slices.Sort(w.latencies)
	at := func(q float64) time.Duration {
		return w.latencies[int(q*float64(len(w.latencies)-1))].Round(time.Millisecond)
	}
	t.Logf("%d updates in %d bursts, %d changes of state told; from the last write of a burst to its state in force: p50 %s, p99 %s, max %s; descriptors %d, goroutines %d throughout",
		updates, len(w.latencies), f.updates.Load(), at(0.5), at(0.99), at(1), fds, goroutines)
}

// startReaders starts goroutines that check what is in force over and over.
func startReaders(t *testing.T, f *follower, n int) (stop func()) {
	ended := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-ended:
					tick.Stop()
					return
				case <-tick.C:
				}
				u := f.current.Load()
				switch {
				case u.Document == nil:
					t.Errorf("the policy is gone: %s", describe(u))
				case !consistent(u.Document):
					t.Errorf("a mix of two documents: %+v", u.Document)
				default:
					continue
				}
				return
			}
		})
	}
	return func() { close(ended); all.Wait() }
}

// bursts writes to the client's volume.
type bursts struct {
	t         *testing.T
	f         *follower
	rng       *rand.Rand
	volume    *volume
	fallback  string // revision of the namespace's document
	n         int
	latencies []time.Duration
}

// burst writes n times and waits for the last state.
func (b *bursts) burst(n int) {
	b.t.Helper()
	var reached func(*source.Update) bool
	var last time.Time
	for range n {
		keys, then := b.content()
		last, reached = b.volume.write(keys), then
	}
	b.latencies = append(b.latencies, b.f.until(reached).Sub(last))
}

// content makes up the keys of the next version, and what their state is like.
func (b *bursts) content() (map[string][]byte, func(*source.Update) bool) {
	b.n++
	keys := map[string][]byte{}
	for i := range b.rng.IntN(4) {
		keys[fmt.Sprintf("other-%d", (b.n+i)%7)] = fmt.Append(nil, b.n)
	}
	data, revision := newDocument(b.t, "checkout", b.n)
	switch b.rng.IntN(10) {
	case 0: // the client is named by no policy any more
		keys[source.DocumentKey] = newTombstone(b.t)
		return keys, func(u *source.Update) bool { return u.Err == nil && u.Document.Revision == b.fallback }
	case 1: // broken, in one of a thousand ways
		keys[source.DocumentKey] = data[:b.rng.IntN(len(data)-2)]
		return keys, func(u *source.Update) bool { return u.Err != nil && u.Reason == source.ReasonInvalidUpdate }
	case 2: // the key is gone
		keys["other"] = data
		return keys, b.gone
	default:
		keys[source.DocumentKey] = data
		return keys, func(u *source.Update) bool { return u.Err == nil && u.Document.Revision == revision }
	}
}

// gone is the state without the key: the last good document stays, and where
// that is a tombstone nothing is missed.
func (b *bursts) gone(u *source.Update) bool {
	if u.Err == nil {
		return u.Document.Revision == b.fallback
	}
	return u.Reason == source.ReasonSourceGone
}

// Writers of two volumes at once, each with its own last good document.
func TestBothVolumesAtOnce(t *testing.T) {
	root := t.TempDir()
	client, namespace := newVolume(t, clientDir(root)), newVolume(t, namespaceDir(root))
	f := follow(t, source.Dir(root))
	var final [2]string
	var writers sync.WaitGroup
	for i, v := range []*volume{client, namespace} {
		name := []string{"checkout", ""}[i]
		writers.Go(func() {
			for n := range 100 {
				var data []byte
				data, final[i] = newDocument(t, name, n)
				v.write(documentKey(data))
			}
		})
	}
	writers.Wait()
	f.until(func(u *source.Update) bool {
		return u.Err == nil && u.Document != nil && u.Document.Revision == final[0]
	})
	client.write(documentKey(newTombstone(t)))
	f.until(func(u *source.Update) bool { return u.Err == nil && u.Document.Revision == final[1] })
}
