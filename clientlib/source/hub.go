package source

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// watcher is what the hub needs of an fsnotify.Watcher.
type watcher interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	Channels() (<-chan fsnotify.Event, <-chan error)
}

// openWatcher is the constructor of a watcher; it fails when the process or the
// user has as many inotify instances as the system allows.
type openWatcher func() (watcher, error)

func openFsnotify() (watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return fsnotifyWatcher{w}, nil
}

type fsnotifyWatcher struct{ *fsnotify.Watcher }

func (w fsnotifyWatcher) Channels() (<-chan fsnotify.Event, <-chan error) {
	return w.Events, w.Errors
}

// processHub is the one watcher of the process.
var processHub = newHub(openFsnotify)

// maxErrors in a row end a watcher: one whose reads fail for good would keep a
// core busy otherwise.
const maxErrors = 100

// hub shares one watcher among all sources of the process: inotify instances
// are scarce (128 a user by default, over all containers of a node). It is open
// as long as somebody subscribes.
//
// An event says nothing but "look again", whatever it names: a volume that the
// kubelet writes never sees a write to the file itself, and an overflow names
// nothing. So every event goes to every subscriber.
type hub struct {
	open openWatcher

	mu      sync.Mutex // guards the watcher; never taken to pass an event on
	current *watch
	wanted  map[string]int // directory -> number of subscribers

	subsMu sync.Mutex
	subs   map[*subscription]struct{}
}

func newHub(open openWatcher) *hub {
	return &hub{open: open, wanted: map[string]int{}, subs: map[*subscription]struct{}{}}
}

// watch is an open watcher and the goroutine that reads its channels.
type watch struct {
	watcher
	done chan struct{}
}

type subscription struct {
	hub   *hub
	hints chan struct{}
	dirs  map[string]bool // guarded by hub.mu
}

// subscribe never fails: without a watcher there are no hints.
func (h *hub) subscribe() *subscription {
	s := &subscription{hub: h, hints: make(chan struct{}, 1), dirs: map[string]bool{}}
	h.subsMu.Lock()
	defer h.subsMu.Unlock()
	h.subs[s] = struct{}{}
	return s
}

// close ends the subscription, and the watcher with the last one.
func (s *subscription) close() {
	h := s.hub
	h.subsMu.Lock()
	delete(h.subs, s)
	h.subsMu.Unlock()

	h.mu.Lock()
	s.keep(nil)
	var idle *watch
	if len(h.wanted) == 0 {
		idle, h.current = h.current, nil
	}
	h.mu.Unlock()
	if idle != nil {
		_ = idle.Close()
		<-idle.done
	}
}

// watch makes the directories the ones that hints are about. Where one is not
// there its nearest ancestor stands in, to see it appear. It is called before
// each look: that renews the watch of a directory that was deleted and made
// anew, and opens a watcher where there was none to be had before.
func (s *subscription) watch(dirs []string) error {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ensure(); err != nil {
		s.keep(nil)
		return err
	}
	var firstErr error
	added := map[string]bool{}
	for _, dir := range dirs {
		at, err := h.watchNearest(dir)
		if err != nil {
			firstErr = errors.Join(firstErr, err)
			continue
		}
		added[at] = true
	}
	s.keep(added)
	return firstErr
}

// keep replaces the directories of the subscription and unwatches those that
// nobody wants any more.
func (s *subscription) keep(dirs map[string]bool) {
	h := s.hub
	for dir := range dirs {
		if !s.dirs[dir] {
			h.wanted[dir]++
		}
	}
	removed := false
	for dir := range s.dirs {
		if dirs[dir] {
			continue
		}
		if h.wanted[dir]--; h.wanted[dir] > 0 {
			continue
		}
		delete(h.wanted, dir)
		if h.current != nil {
			// It fails when the directory is gone, and the watch with it.
			_ = h.current.Remove(dir)
			removed = true
		}
	}
	s.dirs = dirs
	if !removed {
		return
	}
	// Two spellings of one directory share one kernel watch, which the removal
	// of either ends.
	for dir := range h.wanted {
		_ = h.current.Add(dir)
	}
}

// watchNearest watches a directory or, while it is not there, its nearest
// ancestor. The second attempt sees a directory that appeared between the two
// steps of the first; one that appears later makes an event.
func (h *hub) watchNearest(dir string) (string, error) {
	first, err := h.addNearest(dir)
	if err != nil || first == dir {
		return first, err
	}
	return h.addNearest(dir)
}

func (h *hub) addNearest(dir string) (string, error) {
	for {
		err := h.current.Add(dir)
		parent := filepath.Dir(dir)
		if err == nil || parent == dir || !isAbsent(err) {
			return dir, err
		}
		dir = parent
	}
}

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// ensure opens a watcher if there is none.
func (h *hub) ensure() error {
	if h.current != nil {
		return nil
	}
	w, err := h.open()
	if err != nil {
		return err
	}
	h.current = &watch{watcher: w, done: make(chan struct{})}
	go h.pass(h.current)
	return nil
}

// pass turns events and errors into hints until the watcher is closed. It takes
// neither lock of Add's path, since a watcher may hold Add back until its
// events are read.
func (h *hub) pass(w *watch) {
	defer close(w.done)
	defer h.lost(w)
	events, errs := w.Channels()
	for failures := 0; failures < maxErrors; h.hint() {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
			failures = 0
		case _, ok := <-errs:
			if !ok {
				errs = nil // a closed channel is always ready
				continue
			}
			failures++
		}
	}
	_ = w.Close()
}

// lost forgets a watcher that ended by itself, so that the next look opens
// another one.
func (h *hub) lost(w *watch) {
	h.mu.Lock()
	if h.current == w {
		h.current = nil
	}
	h.mu.Unlock()
	h.hint()
}

func (h *hub) hint() {
	h.subsMu.Lock()
	defer h.subsMu.Unlock()
	for s := range h.subs {
		select {
		case s.hints <- struct{}{}:
		default: // one is waiting already
		}
	}
}
