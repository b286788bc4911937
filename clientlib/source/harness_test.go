package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// advance lets the fake time of a synctest bubble pass, and everything that is
// due by then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// docFor renders a valid document for a client; other names give other
// revisions.
func docFor(t testing.TB, client string) []byte {
	t.Helper()
	total := document.Duration(time.Second)
	return rendered(t, &document.Document{
		Namespace: "shop", Client: client,
		Policies:  []document.PolicyRef{{Namespace: "shop", Name: "checkout", UID: "u", Generation: 3}},
		Upstreams: []document.Upstream{{Name: "orders", Hosts: []string{"orders.example.com"}, Rules: document.Rules{Timeouts: &document.Timeouts{Total: &total}}}},
	})
}

func tombstone(t testing.TB) []byte {
	t.Helper()
	return rendered(t, &document.Document{Namespace: "shop", Tombstone: true})
}

func rendered(t testing.TB, d *document.Document) []byte {
	t.Helper()
	data, err := document.Render(d)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tempDir is t.TempDir that other users may enter, for tests that drop rights.
func tempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o644))
}

// volume writes a directory the way the kubelet does: a new version beside the
// old one, then the swap of "..data" by a rename.
type volume struct {
	t   testing.TB
	dir string
}

var versions atomic.Int64

func newVolume(t testing.TB, dir string) *volume {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	return &volume{t: t, dir: dir}
}

// write makes the keys the content of the volume. Steps and their order are
// those of k8s.io/kubernetes/pkg/volume/util.AtomicWriter.
func (v *volume) write(keys map[string][]byte) {
	v.t.Helper()
	old, _ := os.Readlink(filepath.Join(v.dir, dataLink))
	version := fmt.Sprintf("..2026_01_02_03_04_05.%09d", versions.Add(1))
	must(v.t, os.MkdirAll(filepath.Join(v.dir, version), 0o755))
	for key, data := range keys {
		put(v.t, filepath.Join(v.dir, version, key), data)
	}
	must(v.t, os.Symlink(version, filepath.Join(v.dir, "..data_tmp")))
	must(v.t, os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, dataLink)))
	for key := range keys {
		err := os.Symlink(filepath.Join(dataLink, key), filepath.Join(v.dir, key))
		if err != nil && !errors.Is(err, os.ErrExist) {
			v.t.Fatal(err)
		}
	}
	if old == "" {
		return
	}
	entries, err := os.ReadDir(filepath.Join(v.dir, old))
	must(v.t, err)
	for _, e := range entries {
		if keys[e.Name()] == nil {
			must(v.t, os.Remove(filepath.Join(v.dir, e.Name())))
		}
	}
	must(v.t, os.RemoveAll(filepath.Join(v.dir, old)))
}

func (v *volume) policy(data []byte) { v.t.Helper(); v.write(map[string][]byte{DocumentKey: data}) }

// fakeWatcher stands in for fsnotify: a test sends the events, if any.
type fakeWatcher struct {
	mu     sync.Mutex
	dirs   map[string]bool
	addErr error
	events chan fsnotify.Event
	errs   chan error
	closed bool
}

func newFakeWatcher() *fakeWatcher {
	return &fakeWatcher{dirs: map[string]bool{}, events: make(chan fsnotify.Event), errs: make(chan error)}
}

func (w *fakeWatcher) Add(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.addErr != nil {
		return &os.PathError{Op: "add", Path: dir, Err: w.addErr}
	}
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	w.dirs[dir] = true
	return nil
}

func (w *fakeWatcher) Remove(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.dirs, dir)
	return nil
}

func (w *fakeWatcher) Channels() (<-chan fsnotify.Event, <-chan error) { return w.events, w.errs }

// Close closes both channels, as fsnotify does.
func (w *fakeWatcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.errs)
		close(w.events)
	}
	return nil
}

func (w *fakeWatcher) watched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs := []string{}
	for d := range w.dirs {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return dirs
}

func (w *fakeWatcher) fails(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addErr = err
}

// openFake returns a constructor that hands out w.
func openFake(w *fakeWatcher) openWatcher {
	return func() (watcher, error) { return w, nil }
}

func withHub(h *hub) Option { return func(f *files) { f.hub = h } }

func withMounts(table string) Option {
	return func(f *files) { f.mounts = func() ([]byte, error) { return []byte(table), nil } }
}

// running is a source that runs, with what it said.
type running struct {
	t    testing.TB
	mu   sync.Mutex
	all  []Update
	stop func()
}

// start runs a source until the test is over.
func start(t testing.TB, s Source) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t}
	done := make(chan error)
	go func() {
		done <- s.Run(ctx, func(u Update) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, u)
		})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) updates() []Update {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (r *running) last() Update {
	r.t.Helper()
	all := r.updates()
	if len(all) == 0 {
		r.t.Fatal("the source said nothing")
	}
	return all[len(all)-1]
}

// wantUpdates checks how often the source spoke.
func (r *running) wantUpdates(n int) {
	r.t.Helper()
	all := r.updates()
	if len(all) == n {
		return
	}
	r.t.Errorf("%d updates, want %d:", len(all), n)
	for _, u := range all {
		r.t.Logf("  %s", describeUpdate(u))
	}
}

func describeUpdate(u Update) string {
	client := "none"
	if u.Document != nil {
		client = fmt.Sprintf("%q", u.Document.Client)
		if u.Document.Tombstone {
			client = "tombstone"
		}
	}
	return fmt.Sprintf("document %s, reason %q, delivery %s, origin %s, error %v", client, u.Reason, u.Delivery, u.Origin, u.Err)
}

// wantClient checks which document is in force, by its client, and that nothing
// is wrong.
func (r *running) wantClient(client string) {
	r.t.Helper()
	u := r.last()
	if u.Document == nil || u.Document.Client != client || u.Document.Tombstone || u.Err != nil {
		r.t.Errorf("want the document of client %q and no error, got %s", client, describeUpdate(u))
	}
}

// faultOf returns the fault of an update, "" for none.
func faultOf(u Update) Fault {
	var e *Error
	if errors.As(u.Err, &e) {
		return e.Fault
	}
	return ""
}

// backwards is the system clock whose time of day is set back by an hour each
// time somebody asks: a source must not care.
type backwards struct {
	clock.Clock
	steps atomic.Int64
}

func (c *backwards) Now() time.Time {
	return time.Now().Round(0).Add(-time.Duration(c.steps.Add(1)) * time.Hour)
}
