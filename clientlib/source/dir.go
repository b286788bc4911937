package source

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// DocumentKey is the name of the file in each directory of [Dir], and of the
// key in the ConfigMap.
const DocumentKey = "policy.json"

// How often the files are looked at. A poll takes the given time, give or take
// a fifth, so that the pods of a node do not read in step.
const (
	// pollWatched is the time between two looks when nothing seems to happen:
	// events get lost, and some filesystems have none.
	pollWatched = 15 * time.Second
	// pollUnwatched is the same without a watcher.
	pollUnwatched = 5 * time.Second
	// settleQuiet is how long no event may come before a look: one update of a
	// volume makes six or seven.
	settleQuiet = 200 * time.Millisecond
	// settleMax bounds the wait for quiet.
	settleMax = time.Second
)

// Option changes how [Dir] and [File] look.
type Option func(*files)

// WithClock sets the clock of debouncing and polling; the default is
// clock.System.
func WithClock(c clock.Clock) Option { return func(f *files) { f.clock = c } }

// Dir returns the source of a directory with up to three places for a document:
//
//   - client/policy.json, the document of this client alone,
//   - namespace/policy.json, the one of all other clients of the namespace,
//   - policy.json.
//
// The first place that has a valid document wins. Each place keeps its own last
// good one: a missing, empty or broken file never takes a policy away. Only a
// tombstone does: in client/ it leaves the say to the places after it, in the
// other two it means that there is no policy. Any of the places, and the
// directory itself, may appear later.
//
// The directories may be mounted ConfigMaps or plain ones. A change is seen by
// watching the directory, at most a second later, and by looking at it every 15
// seconds besides.
func Dir(path string, opts ...Option) Source {
	return newFiles(path, opts,
		layout{place: place{filepath.Join(path, "client"), DocumentKey}, passTombstone: true},
		layout{place: place{filepath.Join(path, "namespace"), DocumentKey}},
		layout{place: place{filepath.Clean(path), DocumentKey}},
	)
}

// File returns the source of one file, which may be a key of a mounted
// ConfigMap, or a plain file that is rewritten in place or replaced. It keeps
// the last good document as [Dir] does.
func File(path string, opts ...Option) Source {
	return newFiles(path, opts, layout{place: place{filepath.Dir(path), filepath.Base(path)}})
}

type layout struct {
	place         place
	passTombstone bool
}

// files is the source behind Dir and File.
type files struct {
	path    string
	layouts []layout
	clock   clock.Clock
	hub     *hub
	mounts  func() ([]byte, error)
}

func newFiles(path string, opts []Option, layouts ...layout) *files {
	f := &files{path: path, layouts: layouts, clock: clock.System(), hub: processHub, mounts: readMounts}
	for _, o := range opts {
		o(f)
	}
	return f
}

// Run implements [Source].
func (f *files) Run(ctx context.Context, sink func(Update)) error {
	if f.path == "" {
		return errors.New("the path of the source is empty: name the directory or the file with the document")
	}
	r := f.newRun()
	defer r.hints.close()
	for {
		u := r.look()
		if !r.told || !u.Same(r.last) {
			r.told, r.last = true, u
			sink(u)
		}
		if !r.rest(ctx, u.Delivery) {
			return nil
		}
	}
}

// run is the state of one Run; one goroutine uses it.
type run struct {
	*files
	hints  *subscription
	places *Places
	spots  []*spot
	check  *Check
	told   bool
	last   Update
}

// spot is a place in the filesystem and the slot of what was found there.
type spot struct {
	place
	slot *slot
	// fixed says that the slot's document lies where nothing ever changes.
	fixed bool
}

func (f *files) newRun() *run {
	r := &run{files: f, hints: f.hub.subscribe(), places: &Places{name: f.path}, check: &Check{}}
	for _, l := range f.layouts {
		s := &slot{origin: l.place.path(), passTombstone: l.passTombstone}
		r.places.slots = append(r.places.slots, s)
		r.spots = append(r.spots, &spot{place: l.place, slot: s})
	}
	return r
}

// look renews the watches, then reads all places: a change after the watch
// makes an event, a change before it is read.
func (r *run) look() Update {
	watching := r.hints.watch(r.dirs())
	for _, s := range r.spots {
		s.look(r.mounts)
	}
	u := r.places.Update()
	u.Delivery, u.Check = DeliveryMount, r.check
	if watching != nil {
		u.Delivery = DeliveryPoll
	}
	fixed := r.fixed()
	if fixed {
		u.Delivery = DeliveryStatic
	}
	switch {
	case u.Err != nil:
		return u
	case fixed:
		u.Reason = ReasonSubPathMount
		return u
	case watching != nil:
		u.Reason = ReasonWatchUnavailable
	}
	r.check.Mark(r.clock.Now())
	return u
}

// look reads the place again.
func (s *spot) look(mounts func() ([]byte, error)) {
	data, atomic, fault := s.read()
	if fault != nil {
		s.slot.fault = fault
		return
	}
	if s.slot.found(data) {
		s.fixed = !atomic && isFixedMount(mounts, s.place)
	}
}

// fixed reports whether the document in force can never change.
func (r *run) fixed() bool {
	inForce := r.places.inForce()
	for _, s := range r.spots {
		if s.slot == inForce {
			return s.fixed
		}
	}
	return false
}

func (r *run) dirs() []string {
	dirs := make([]string, 0, len(r.spots))
	for _, s := range r.spots {
		dirs = append(dirs, s.dir)
	}
	return dirs
}

// rest waits until it is time to look again: after a poll interval, or once the
// events that a change makes have settled. It returns false when ctx is over.
func (r *run) rest(ctx context.Context, delivery Delivery) bool {
	interval := pollWatched
	if delivery == DeliveryPoll {
		interval = pollUnwatched
	}
	poll := r.clock.NewTimer(jittered(interval))
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-poll.C():
		return true
	case <-r.hints.hints:
		return r.settle(ctx)
	}
}

func (r *run) settle(ctx context.Context) bool {
	quiet, limit := r.clock.NewTimer(settleQuiet), r.clock.NewTimer(settleMax)
	defer quiet.Stop()
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-limit.C():
			return true
		case <-quiet.C():
			return true
		case <-r.hints.hints:
			quiet.Reset(settleQuiet)
		}
	}
}

// jittered returns d, give or take a fifth.
func jittered(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5)
}
