package reload

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A thousand updates in bursts, with keys added and removed, good documents,
// broken ones and tombstones among them, while 64 goroutines make calls: the
// final state of every burst is in force, soon; no call fails or sees a mix of
// two documents; nothing piles up.
//
// Cases R01, R02, R04.
func TestBurstsOfUpdates(t *testing.T) {
	const updates, callers = 1000, 64
	root := t.TempDir()
	volume, namespace := newVolume(t, clientDir(root)), newVolume(t, namespaceDir(root))
	fallback, fallbackRevision := newDocument(t, "", 0)
	namespace.write(documentKey(fallback))
	first, firstRevision := newDocument(t, "checkout", 0)
	volume.write(documentKey(first))

	f := newFollower(source.Dir(root))
	client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(f), clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	defer client.Close()
	if s := client.Status(); s.State != clientlib.StateReady || s.Revision != firstRevision {
		t.Fatalf("at first the client has %+v", s)
	}
	w := &bursts{t: t, f: f, rng: rand.New(rand.NewPCG(1, 2)), volume: volume, fallback: fallbackRevision}
	w.burst(1) // so that everything is there that is made once
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	stopCalls := startCalls(t, client, f, callers)

	w.latencies = nil
	for written := 0; written < updates; {
		n := min(updates-written, []int{1, 1, 2, 5, 20, 50, 100}[w.rng.IntN(7)])
		w.burst(n)
		written += n
	}

	calls := stopCalls()
	settles(t, "descriptors", fds, func() int { return descriptors(t) })
	settles(t, "goroutines", goroutines, runtime.NumGoroutine)
	slices.Sort(w.latencies)
	at := func(q float64) time.Duration {
		return w.latencies[int(q*float64(len(w.latencies)-1))].Round(time.Millisecond)
	}
	t.Logf("%d updates in %d bursts, %d changes of state told, %d calls; from the last write of a burst to its state in force: p50 %s, p99 %s, max %s; %d descriptors and %d goroutines before and after",
		updates, len(w.latencies), f.updates.Load(), calls, at(0.5), at(0.99), at(1), fds, goroutines)
}

// settles waits until a number is what it was before the updates: what a timer
// started last may still be at its end.
func settles(t *testing.T, what string, before int, count func() int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now().Add(20 * time.Second); count() != before; <-tick.C {
		if time.Now().After(last) {
			t.Errorf("%d %s, %d before the updates", count(), what, before)
			return
		}
	}
}

// answering is an upstream that answers every request at once.
type answering struct{}

func (answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok")), Request: req}, nil
}

// startCalls makes calls over and over; stop returns how many there were.
func startCalls(t *testing.T, client *clientlib.Client, f *follower, callers int) (stop func() int64) {
	calling := &http.Client{Transport: nethttp.NewTransport(client, answering{})}
	ended := make(chan struct{})
	var calls atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
				}
				if err := callOnce(calling, f.current.Load()); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	return func() int64 {
		close(ended)
		all.Wait()
		return calls.Load()
	}
}

func callOnce(client *http.Client, u *source.Update) error {
	if u.Document == nil || !consistent(u.Document) {
		return fmt.Errorf("the policy is gone or mixed: %s", describe(u))
	}
	resp, err := client.Get("http://orders/")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "ok" {
		return fmt.Errorf("the call got %q, %v", body, err)
	}
	return nil
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
