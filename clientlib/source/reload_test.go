package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// longestPoll is the longest time between two looks at a watched directory.
const longestPoll = pollWatched * 6 / 5

// quietDir is a source whose watcher never says anything by itself.
func quietDir(root string) (Source, *fakeWatcher) {
	w := newFakeWatcher()
	return Dir(root, withHub(newHub(openFake(w)))), w
}

func TestFirstWordComesAtOnce(t *testing.T) {
	for name, write := range map[string]func(string){
		"nothing there": func(string) {},
		"a document":    func(root string) { newVolume(t, root).policy(docFor(t, "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(tempDir(t), "timeouts")
			write(root)
			synctest.Test(t, func(t *testing.T) {
				s, _ := quietDir(root)
				r := start(t, s)
				synctest.Wait()
				r.wantUpdates(1)
			})
		})
	}
}

func TestPlacesAreAskedInOrder(t *testing.T) {
	const bad = "{"
	for _, tc := range []struct {
		name string
		// files by place; "tombstone" stands for one, other text for the
		// document of that client.
		client, namespace, plain string
		want                     string // client of the document in force
		reason                   Reason
	}{
		{name: "nothing", reason: ReasonNoDocument},
		{name: "client alone", client: "c", want: "c"},
		{name: "namespace alone", namespace: "n", want: "n"},
		{name: "plain alone", plain: "p", want: "p"},
		{name: "client first", client: "c", namespace: "n", plain: "p", want: "c"},
		{name: "namespace before plain", namespace: "n", plain: "p", want: "n"},
		{name: "broken client leaves it to namespace", client: bad, namespace: "n", want: "n", reason: ReasonInvalidInitial},
		{name: "broken client alone", client: bad, reason: ReasonInvalidInitial},
		{name: "broken namespace does not matter to a client", client: "c", namespace: bad, want: "c"},
		{name: "client tombstone leaves it to namespace", client: "tombstone", namespace: "n", want: "n"},
		{name: "client tombstone leaves it to plain", client: "tombstone", plain: "p", want: "p"},
		{name: "client tombstone alone is no policy", client: "tombstone", want: "tombstone"},
		{name: "client tombstone and broken namespace", client: "tombstone", namespace: bad, want: "tombstone", reason: ReasonInvalidInitial},
		{name: "namespace tombstone is no policy", namespace: "tombstone", plain: "p", want: "tombstone"},
		{name: "namespace tombstone and client", client: "c", namespace: "tombstone", want: "c"},
		{name: "both tombstones", client: "tombstone", namespace: "tombstone", plain: "p", want: "tombstone"},
		{name: "plain tombstone is no policy", plain: "tombstone", want: "tombstone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tempDir(t)
			for dir, client := range map[string]string{"client": tc.client, "namespace": tc.namespace, ".": tc.plain} {
				switch client {
				case "":
				case bad:
					put(t, filepath.Join(root, dir, DocumentKey), []byte(bad))
				case "tombstone":
					put(t, filepath.Join(root, dir, DocumentKey), tombstone(t))
				default:
					put(t, filepath.Join(root, dir, DocumentKey), docFor(t, client))
				}
			}
			synctest.Test(t, func(t *testing.T) {
				s, _ := quietDir(root)
				r := start(t, s)
				synctest.Wait()
				u := r.last()
				got := ""
				if u.Document != nil {
					got = u.Document.Client
					if u.Document.Tombstone {
						got = "tombstone"
					}
				}
				if got != tc.want || u.Reason != tc.reason || (u.Err != nil) != (tc.reason != "") {
					t.Errorf("want document %q and reason %q, got %s", tc.want, tc.reason, describeUpdate(u))
				}
			})
		})
	}
}

func TestPlacesKeepTheirLastGoodEachForItself(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		client, namespace := newVolume(t, filepath.Join(root, "client")), newVolume(t, filepath.Join(root, "namespace"))
		namespace.policy(docFor(t, "n1"))
		s, _ := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		r.wantClient("n1")

		client.policy(docFor(t, "c1"))
		advance(longestPoll)
		r.wantClient("c1")

		// The client's own document stays in force though the namespace's is newer.
		client.policy([]byte("{"))
		namespace.policy(docFor(t, "n2"))
		advance(longestPoll)
		if u := r.last(); u.Document.Client != "c1" || u.Reason != ReasonInvalidUpdate {
			t.Errorf("broken client document: %s", describeUpdate(u))
		}

		must(t, os.RemoveAll(client.dir))
		advance(longestPoll)
		if u := r.last(); u.Document.Client != "c1" || u.Reason != ReasonSourceGone {
			t.Errorf("client document gone: %s", describeUpdate(u))
		}

		client = newVolume(t, client.dir)
		client.policy(tombstone(t))
		advance(longestPoll)
		r.wantClient("n2")

		// What is gone after its tombstone is not missed.
		must(t, os.RemoveAll(client.dir))
		n := len(r.updates())
		advance(10 * longestPoll)
		r.wantUpdates(n)
		r.wantClient("n2")
	})
}

func TestTombstoneTakesThePolicyAway(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, filepath.Join(root, "namespace"))
		v.policy(docFor(t, "n"))
		s, _ := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		v.policy(tombstone(t))
		advance(longestPoll)
		if u := r.last(); u.Err != nil || u.Document == nil || !u.Document.Tombstone || len(u.Document.Upstreams) != 0 {
			t.Errorf("after the tombstone: %s", describeUpdate(u))
		}
		must(t, os.RemoveAll(v.dir))
		advance(10 * longestPoll)
		r.wantUpdates(2)
	})
}

// One update of a volume makes six or seven events; the burst is one look and
// one update, whatever the events are called and about.
//
// Case R15.
func TestBurstOfEventsIsOneUpdate(t *testing.T) {
	ops := []fsnotify.Op{fsnotify.Create, fsnotify.Write, fsnotify.Remove, fsnotify.Rename, fsnotify.Chmod, 0}
	names := []string{"..2026_01_02_03_04_05.1", "..data_tmp", dataLink, DocumentKey, "unrelated", ""}
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "a"))
		s, w := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		began := time.Now()
		v.policy(docFor(t, "b"))
		for i := range 7 {
			w.events <- fsnotify.Event{Name: filepath.Join(root, names[i%len(names)]), Op: ops[i%len(ops)]}
			advance(10 * time.Millisecond)
		}
		for len(r.updates()) == 1 {
			advance(10 * time.Millisecond)
		}
		if took := time.Since(began); took > settleMax {
			t.Errorf("the update took %s", took)
		}
		advance(10 * longestPoll)
		r.wantUpdates(2)
		r.wantClient("b")
	})
}

// Case R03.
func TestEveryEventAloneIsAHint(t *testing.T) {
	for _, op := range []fsnotify.Op{fsnotify.Create, fsnotify.Write, fsnotify.Remove, fsnotify.Rename, fsnotify.Chmod} {
		t.Run(op.String(), func(t *testing.T) {
			root := tempDir(t)
			synctest.Test(t, func(t *testing.T) {
				v := newVolume(t, root)
				v.policy(docFor(t, "a"))
				s, w := quietDir(root)
				r := start(t, s)
				advance(time.Second)
				v.policy(docFor(t, "b"))
				w.events <- fsnotify.Event{Name: filepath.Join(root, "anything"), Op: op}
				advance(settleQuiet)
				r.wantClient("b")
			})
		})
	}
}

func TestWatcherErrorIsAHint(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "a"))
		s, w := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		v.policy(docFor(t, "b"))
		w.errs <- fsnotify.ErrEventOverflow
		advance(settleQuiet)
		r.wantClient("b")
	})
}

func TestEventsWithoutEndDoNotPutTheLookOff(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "a"))
		s, w := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		v.policy(docFor(t, "b"))
		for range int(settleMax/(100*time.Millisecond)) + 1 {
			w.events <- fsnotify.Event{Name: root, Op: fsnotify.Write}
			advance(100 * time.Millisecond)
		}
		r.wantClient("b")
	})
}

// A file that is rewritten in place is empty for a moment.
//
// Case R11.
func TestFileRewrittenInPlaceIsReadWhenItIsComplete(t *testing.T) {
	root := tempDir(t)
	path := filepath.Join(root, DocumentKey)
	synctest.Test(t, func(t *testing.T) {
		put(t, path, docFor(t, "a"))
		w := newFakeWatcher()
		r := start(t, File(path, withHub(newHub(openFake(w)))))
		advance(time.Second)
		must(t, os.Truncate(path, 0))
		w.events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
		advance(120 * time.Millisecond)
		put(t, path, docFor(t, "b"))
		w.events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
		advance(longestPoll)
		r.wantUpdates(2)
		r.wantClient("b")
	})
}

// Case R06.
func TestWithoutEventsThePollFindsTheChange(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "0"))
		s, _ := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		shortest, longest := time.Hour, time.Duration(0)
		for i := range 50 {
			// Just after a look, the next one is a whole interval away.
			began, n := time.Now(), len(r.updates())
			v.policy(docFor(t, fmt.Sprint(i+1)))
			for len(r.updates()) == n {
				advance(10 * time.Millisecond)
			}
			if i > 0 {
				shortest, longest = min(shortest, time.Since(began)), max(longest, time.Since(began))
			}
		}
		if shortest < pollWatched*4/5-time.Second || longest > longestPoll || longest-shortest < time.Second {
			t.Errorf("changes were found after %s to %s, want 12s to 18s", shortest, longest)
		}
	})
}

// The inotify instances of a node are used up: the process has no watcher, or
// gets no watch.
func TestWithoutAWatcherItLooksMoreOften(t *testing.T) {
	for name, fail := range map[string]func(h *hub, w *fakeWatcher, err error){
		"EMFILE from the constructor": func(h *hub, w *fakeWatcher, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.open = func() (watcher, error) {
				if err != nil {
					return nil, &os.SyscallError{Syscall: "inotify_init1", Err: syscall.EMFILE}
				}
				return w, nil
			}
		},
		"ENOSPC from Add": func(_ *hub, w *fakeWatcher, err error) {
			if err != nil {
				err = syscall.ENOSPC
			}
			w.fails(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			synctest.Test(t, func(t *testing.T) {
				v := newVolume(t, root)
				v.policy(docFor(t, "a"))
				w := newFakeWatcher()
				h := newHub(openFake(w))
				fail(h, w, syscall.EMFILE)
				r := start(t, Dir(root, withHub(h)))
				advance(time.Second)
				if u := r.last(); u.Delivery != DeliveryPoll || u.Reason != ReasonWatchUnavailable || u.Err != nil || u.Document == nil || u.Message() == "" {
					t.Errorf("without a watcher: %s", describeUpdate(u))
				}
				v.policy(docFor(t, "b"))
				advance(pollUnwatched * 6 / 5)
				r.wantClient("b")
				r.wantUpdates(2)

				// It comes back by itself once the limit is not reached any more.
				fail(h, w, nil)
				advance(pollUnwatched * 6 / 5)
				if u := r.last(); u.Delivery != DeliveryMount || u.Reason != ReasonNone {
					t.Errorf("with a watcher: %s", describeUpdate(u))
				}
				r.wantUpdates(3)
			})
		})
	}
}

// The watcher dies under the source: its channels are closed, which must
// neither keep a core busy nor stop the source.
//
// Case R06.
func TestLostWatcherIsReplaced(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "a"))
		first, second := newFakeWatcher(), newFakeWatcher()
		opened := 0
		h := newHub(func() (watcher, error) {
			opened++
			switch opened {
			case 1:
				return first, nil
			case 2:
				return nil, syscall.EMFILE
			default:
				return second, nil
			}
		})
		r := start(t, Dir(root, withHub(h)))
		advance(time.Second)
		must(t, first.Close())
		v.policy(docFor(t, "b"))
		advance(settleMax)
		if u := r.last(); u.Delivery != DeliveryPoll || u.Document.Client != "b" {
			t.Errorf("without the watcher: %s", describeUpdate(u))
		}
		advance(2 * pollUnwatched)
		if u := r.last(); u.Delivery != DeliveryMount {
			t.Errorf("with another watcher: %s", describeUpdate(u))
		}
		v.policy(docFor(t, "c"))
		second.events <- fsnotify.Event{Op: fsnotify.Create}
		advance(settleQuiet)
		r.wantClient("c")
		if opened != 3 {
			t.Errorf("%d watchers were opened, want 3", opened)
		}
	})
}

// Case R23.
func TestWatcherThatOnlyFailsIsGivenUp(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		newVolume(t, root).policy(docFor(t, "a"))
		s, w := quietDir(root)
		start(t, s)
		advance(time.Second)
		for range maxErrors {
			w.errs <- syscall.EBADF
		}
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			t.Error("the watcher is still open")
		}
	})
}

func TestAllSourcesShareOneWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWatcher()
		opened := 0
		h := newHub(func() (watcher, error) { opened++; return w, nil })
		shared, own := tempDir(t), tempDir(t)
		a, b := start(t, Dir(shared, withHub(h))), start(t, Dir(shared, withHub(h)))
		c := start(t, Dir(own, withHub(h)))
		advance(time.Second)
		if opened != 1 {
			t.Errorf("%d watchers for three sources, want 1", opened)
		}
		a.stop()
		c.stop()
		if got := w.watched(); !slices.Equal(got, []string{shared}) {
			t.Errorf("with one source left %v is watched, want %s", got, shared)
		}
		put(t, filepath.Join(shared, DocumentKey), docFor(t, "x"))
		w.events <- fsnotify.Event{Op: fsnotify.Create}
		advance(settleQuiet)
		b.wantClient("x")
		b.stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			t.Error("the watcher is open though nobody uses it")
		}
	})
}

// A directory that is not there is waited for in its nearest ancestor.
func TestDirectoryThatAppearsLater(t *testing.T) {
	base := tempDir(t)
	root := filepath.Join(base, "a", "b", "timeouts")
	synctest.Test(t, func(t *testing.T) {
		s, w := quietDir(root)
		r := start(t, s)
		advance(time.Second)
		if u := r.last(); u.Reason != ReasonNoDocument || u.Delivery != DeliveryMount || faultOf(u) != FaultMissing || !strings.Contains(u.Err.Error(), root) {
			t.Errorf("without the directory: %s", describeUpdate(u))
		}
		if got := w.watched(); !slices.Equal(got, []string{base}) {
			t.Errorf("%v is watched, want %s", got, base)
		}
		newVolume(t, filepath.Join(root, "client")).policy(docFor(t, "c"))
		w.events <- fsnotify.Event{Name: filepath.Join(base, "a"), Op: fsnotify.Create}
		advance(settleQuiet)
		r.wantClient("c")
		want := []string{root, filepath.Join(root, "client")}
		if got := w.watched(); !slices.Equal(got, want) {
			t.Errorf("%v is watched, want %v", got, want)
		}
	})
}

func TestStatic(t *testing.T) {
	doc, err := document.Parse(docFor(t, "a"))
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Static(doc))
		advance(time.Hour)
		r.wantUpdates(1)
		r.wantClient("a")
		if u := r.last(); u.Delivery != DeliveryStatic || u.Reason != ReasonNone {
			t.Errorf("got %s", describeUpdate(u))
		}
		none := start(t, Static(nil))
		synctest.Wait()
		if u := none.last(); u.Reason != ReasonNoDocument || u.Err == nil || u.Message() == "" {
			t.Errorf("without a document: %s", describeUpdate(u))
		}
	})
}

func TestEmptyPathIsAnError(t *testing.T) {
	for _, s := range []Source{Dir(""), File("")} {
		if err := s.Run(context.Background(), func(Update) { t.Error("sink was called") }); err == nil {
			t.Error("Run returned nil")
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	calls := 0
	if err := Dir(tempDir(t)).Run(ctx, func(Update) { calls++ }); err != nil || calls != 1 {
		t.Errorf("Run returned %v after %d calls, want nil after 1", err, calls)
	}
}

// Readers that take the newest document while it changes never see a mix of
// two.
//
// Case R24.
func TestReadersNeverSeeAMix(t *testing.T) {
	root := tempDir(t)
	v := newVolume(t, root)
	pair := func(total, attempt time.Duration) []byte {
		a, b := document.Duration(total), document.Duration(attempt)
		rules := document.Rules{Timeouts: &document.Timeouts{Total: &a, Attempt: &b}}
		return rendered(t, &document.Document{Upstreams: []document.Upstream{{Name: "orders", Hosts: []string{"orders"}, Rules: rules}}})
	}
	docs := [][]byte{pair(1*time.Second, 100*time.Millisecond), pair(2*time.Second, 200*time.Millisecond)}
	v.policy(docs[0])

	run := newRun(t, root)
	// Each turn is one reload, during which every reader reads a few times.
	type turn struct {
		doc  *document.Document
		next chan struct{}
	}
	var current atomic.Pointer[turn]
	current.Store(&turn{run.look().Document, make(chan struct{})})
	var readers sync.WaitGroup
	for range 100 {
		readers.Go(func() {
			for now := current.Load(); now.doc != nil; now = current.Load() {
				for range 10 {
					newest := current.Load().doc
					if newest == nil {
						return
					}
					limits := newest.Upstreams[0].Timeouts
					if *limits.Total != 10**limits.Attempt {
						t.Errorf("mixed pair %s and %s", limits.Total, limits.Attempt)
						return
					}
				}
				<-now.next
			}
		})
	}
	for i := range 1000 {
		v.policy(docs[i%2])
		u := run.look()
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		before := current.Swap(&turn{u.Document, make(chan struct{})})
		close(before.next)
	}
	before := current.Swap(&turn{})
	close(before.next)
	readers.Wait()
}

// newRun returns the state of a run with the process's real watcher, to look
// step by step.
func newRun(t *testing.T, root string, opts ...Option) *run {
	t.Helper()
	f := Dir(root, opts...).(*files)
	r := f.newRun()
	t.Cleanup(r.hints.close)
	return r
}

// With the real watcher, and polls that never come: every update of a volume is
// found by its events, one after the other, and a directory that is deleted and
// made anew is watched again.
//
// Case R02.
func TestRealWatcherFindsEveryUpdate(t *testing.T) {
	for _, place := range []string{".", "client", "namespace"} {
		t.Run(place, func(t *testing.T) {
			root := filepath.Join(tempDir(t), "timeouts")
			updates := make(chan Update, 100)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			s := Dir(root, WithClock(noPolls{clock.System()}))
			go func() { done <- s.Run(ctx, func(u Update) { updates <- u }) }()
			defer func() { cancel(); <-done }()

			if u := <-updates; u.Reason != ReasonNoDocument {
				t.Fatalf("at first: %s", describeUpdate(u))
			}
			at := filepath.Join(root, place)
			v := newVolume(t, at)
			for i := range 3 {
				want := fmt.Sprint("c", i)
				v.policy(docFor(t, want))
				if u := <-updates; u.Document == nil || u.Document.Client != want || u.Err != nil || u.Delivery != DeliveryMount {
					t.Fatalf("after write %d: %s", i, describeUpdate(u))
				}
			}
			must(t, os.RemoveAll(at))
			if u := <-updates; u.Reason != ReasonSourceGone || u.Document == nil {
				t.Fatalf("after the removal: %s", describeUpdate(u))
			}
			newVolume(t, at).policy(docFor(t, "anew"))
			u := <-updates
			for u.Err != nil { // it may be seen while it is written
				u = <-updates
			}
			if u.Document.Client != "anew" {
				t.Fatalf("after the new directory: %s", describeUpdate(u))
			}
			newVolume(t, at).policy(docFor(t, "again"))
			if u := <-updates; u.Document.Client != "again" || u.Err != nil {
				t.Fatalf("after an update of the new directory: %s", describeUpdate(u))
			}
		})
	}
}

// Editors rename, and programs rewrite: both are seen by events.
func TestRealWatcherFindsChangesOfAPlainFile(t *testing.T) {
	path := filepath.Join(tempDir(t), "my-policy.json")
	put(t, path, docFor(t, "a"))
	updates := make(chan Update, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	s := File(path, WithClock(noPolls{clock.System()}))
	go func() { done <- s.Run(ctx, func(u Update) { updates <- u }) }()
	defer func() { cancel(); <-done }()

	next := func(want string) {
		t.Helper()
		u := <-updates
		if u.Document == nil || u.Document.Client != want || u.Err != nil || u.Origin != path || u.Delivery != DeliveryMount || u.Reason != ReasonNone {
			t.Fatalf("want %q, got %s", want, describeUpdate(u))
		}
	}
	next("a")
	put(t, path, docFor(t, "b"))
	next("b")
	put(t, path+"~", docFor(t, "c"))
	must(t, os.Rename(path+"~", path))
	next("c")
	must(t, os.Remove(path))
	put(t, path, docFor(t, "d"))
	next("d")
}

// noPolls is a clock on which polls never come due, so that a test sees what
// events alone do.
type noPolls struct{ clock.Clock }

func (c noPolls) NewTimer(d time.Duration) clock.Timer {
	if d > settleMax {
		d = 1000 * time.Hour
	}
	return c.Clock.NewTimer(d)
}
