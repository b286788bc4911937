package kubesource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const (
	// defaultGrace is how long attempts may fail before that is told: a server that is
	// restarted, or hands its watches to another one, is no news.
	defaultGrace = 5 * time.Second
	// proof is how long a watch has to stay open after a failure, unless it
	// delivers, to count as one.
	proof = time.Second
	// watchMin and watchMax bound the time after which the server is asked to
	// end a watch; watchSlack later it is ended here.
	watchMin, watchMax = 5 * time.Minute, 10 * time.Minute
	watchSlack         = 30 * time.Second
	// startUp is how long a server that was away may refuse, since it does not
	// know yet who has which rights.
	startUp = 30 * time.Second
	// tokenLook is the time between two looks for another token than the one that
	// was refused.
	tokenLook = time.Second
	// retellAfter is how long a failure stays told that becomes another one again
	// and again.
	retellAfter = 5 * time.Minute
	// rereadAfter is how long a plain read that failed waits, if that is sooner
	// than the next one is due.
	rereadAfter = 30 * time.Second
)

// follower lists and watches one ConfigMap. One goroutine uses it.
type follower struct {
	options
	place    int
	name     string
	sessions *sessions
	pace     pace
	rota     *rota
	emit     func(sighting)

	object  string        // resourceVersion of the ConfigMap as delivered, empty without one
	looked  bool          // something was ever told
	again   bool          // the last round ended without a failure of the server
	proven  bool          // a watch of this round was one
	spread  time.Duration // the longest pause after the watch that ended last, zero once it was made
	denied  bool          // the server does not take the token of a file
	refused string        // that token, empty where the file cannot be read
	woken   bool          // the last rest ended early
	away    time.Time     // when the server could not be reached last, or ended a watch early
	failing time.Time     // since when, zero when all is well
	trouble *trouble      // what was told, nil when all is well
	turns   int           // how often that became another one since all was well
	turned  time.Time     // when that was last
	polling bool          // what was told along with it
}

// follow goes on until ctx ends.
func (f *follower) follow(ctx context.Context) {
	for {
		listed, err := f.round(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := f.scatter()
		// Starting over is no failure, unless it does not help.
		if f.again = !f.again && (isGone(err) || errors.Is(err, errStalled)); !f.again {
			wait = max(wait, f.fail(err, listed))
		}
		if !f.pause(ctx, wait) {
			return
		}
	}
}

// scatter returns a random pause before a watch that ended is made anew, zero
// where there was none or its pause was made already.
func (f *follower) scatter() time.Duration {
	pause := portion(f.spread, rand.Float64())
	f.spread = 0
	return pause
}

// pause waits, not longer than until another place is refused no more, and for a
// new token not longer than tokenLook after it is there. It returns false when ctx
// is over.
func (f *follower) pause(ctx context.Context, d time.Duration) bool {
	for {
		step := d
		if f.denied {
			step = min(d, tokenLook)
		}
		if !f.rest(ctx, step) {
			return false
		}
		if d -= step; d <= 0 || f.woken || f.denied && f.isRenewed() {
			return true
		}
	}
}

// isRenewed reports whether the file has another token than the one that was
// refused.
func (f *follower) isRenewed() bool {
	token, err := os.ReadFile(f.config.BearerTokenFile)
	return err == nil && string(token) != f.refused
}

// round lists once, then watches for as long as one watch can go on where the
// last one ended. It returns why it ended, and whether it had a list and no
// watch.
func (f *follower) round(ctx context.Context) (listed bool, err error) {
	session, err := f.sessions.get()
	if err != nil {
		return false, err
	}
	defer func() { f.sessions.give(session, isSpent(err)) }()
	found, version, err := f.list(ctx, session)
	if err != nil {
		return false, err
	}
	f.listed(found)
	for f.proven = false; ; {
		if version, err = f.watch(ctx, session, version); err != nil {
			return !f.proven, err
		}
		if !f.pause(ctx, f.scatter()) {
			return false, ctx.Err()
		}
	}
}

// listed tells what a list found. That ends what kept lists from succeeding; a
// watch that failed has to prove itself.
func (f *follower) listed(found *look) {
	f.looked, f.object = true, found.object
	f.rota.allowed(f.place)
	if !f.polling {
		f.trouble = nil
	}
	f.emit(sighting{look: found, trouble: f.trouble, polling: f.polling})
}

// well notes that the watch works, and tells what it delivered, nil for nothing
// new.
func (f *follower) well(found *look) {
	if found != nil {
		f.object = found.object
	}
	f.pace.reset()
	f.proven, f.denied, f.turns = true, false, 0
	f.failing, f.trouble, f.polling, f.again = time.Time{}, nil, false, false
	f.emit(sighting{look: found})
}

// fail notes an attempt that failed and returns how long to wait. It is told
// once it is clear that it is more than a restart, and again when the kind of
// failure changes. Listed says that only the watch failed.
func (f *follower) fail(err error, listed bool) time.Duration {
	now := f.clock.Now()
	if f.failing.IsZero() {
		f.failing = now
	}
	trouble := newTrouble(err)
	if f.denied = trouble.class == unauthorized && f.config.BearerTokenFile != ""; f.denied {
		// Where there is none to be read, the first one is another one.
		token, _ := os.ReadFile(f.config.BearerTokenFile)
		f.refused = string(token)
	}
	lasting := trouble.denied() || listed
	if !lasting {
		f.away = now
	}
	wait := f.wait(err, lasting, now)
	if trouble.denied() && !listed {
		wait = f.rota.refused(f.place, now, wait, f.maxDeniedBackoff)
	}
	if f.looked && f.trouble == nil && now.Sub(f.failing) < f.grace {
		return wait
	}
	if f.isNews(trouble, now) {
		f.trouble, f.turned = trouble, now
		f.turns++
	}
	f.looked, f.polling = true, listed
	f.emit(sighting{trouble: f.trouble, polling: f.polling})
	return wait
}

// wait returns the time until the next attempt. A server that refuses while it
// starts is asked as in an outage that has only begun.
func (f *follower) wait(err error, lasting bool, now time.Time) time.Duration {
	outage := now.Sub(f.failing)
	if lasting {
		outage = 0
	}
	return f.pace.wait(lasting && now.Sub(f.away) >= startUp, outage, retryAfter(err), rand.Float64())
}

// isNews reports whether a failure is told in the place of the one that was. One
// that changes with each attempt, as behind a load balancer, is told less often.
func (f *follower) isNews(t *trouble, now time.Time) bool {
	const atOnce = 3
	switch {
	case f.trouble == nil:
		return true
	case f.trouble.class == t.class:
		return false
	default:
		return f.turns <= atOnce || now.Sub(f.turned) >= retellAfter
	}
}

// rest waits, or until it is woken. It returns false when ctx is over.
func (f *follower) rest(ctx context.Context, d time.Duration) bool {
	timer := f.clock.NewTimer(d)
	defer timer.Stop()
	f.woken = false
	select {
	case <-ctx.Done():
		return false
	case <-f.rota.wake(f.place):
		f.woken = true
	case <-timer.C():
	}
	return true
}

// list reads the ConfigMap, and which version of all of them that was.
func (f *follower) list(ctx context.Context, s *session) (found *look, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var all corev1.ConfigMapList
	opts := metav1.ListOptions{FieldSelector: f.selector()}
	err = s.client.Get().Namespace(f.namespace).Resource("configmaps").
		VersionedParams(&opts, parameter).MaxRetries(0).Do(ctx).Into(&all)
	if err != nil {
		return nil, "", err
	}
	if !isVersion(all.ResourceVersion) {
		return nil, "", errNoVersion
	}
	found = &look{missing: errors.New("there is no such ConfigMap")}
	for i := range all.Items {
		if all.Items[i].Name == f.name {
			found = lookAt(&all.Items[i])
		}
	}
	return found, all.ResourceVersion, nil
}

// isVersion reports whether a watch can go on after a resourceVersion. After the
// other ones a server begins with whatever it remembers, which may be old.
func isVersion(v string) bool { return v != "" && v != "0" }

func (f *follower) selector() string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, f.name).String()
}

// lookAt takes the document out of a ConfigMap, as the kubelet puts it into a
// volume: from binaryData too, and that first, though the API server refuses one
// key in both. No more of it is kept than a document may have, and a byte.
func lookAt(m *corev1.ConfigMap) *look {
	if data, ok := m.BinaryData[source.DocumentKey]; ok {
		return &look{object: m.ResourceVersion, data: bytes.Clone(data[:min(len(data), document.MaxBytes+1)])}
	}
	if text, ok := m.Data[source.DocumentKey]; ok {
		return &look{object: m.ResourceVersion, data: []byte(text[:min(len(text), document.MaxBytes+1)])}
	}
	return &look{object: m.ResourceVersion, missing: fmt.Errorf("it has no key %s%s", source.DocumentKey, others(m))}
}

// others names a few of the keys that are there instead.
func others(m *corev1.ConfigMap) string {
	const few = 3
	keys := slices.AppendSeq(slices.Collect(maps.Keys(m.Data)), maps.Keys(m.BinaryData))
	slices.Sort(keys)
	if len(keys) == 0 {
		return ""
	}
	return ", but " + strings.Join(keys[:min(len(keys), few)], ", ")
}

// watch delivers the changes after a version until the server ends the watch,
// and returns the version to go on with.
func (f *follower) watch(ctx context.Context, s *session, version string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lasts := watchMin + rand.N(watchMax-watchMin)
	w := &watching{follower: f, version: version, left: newLeft(), reads: make(chan reading, 1)}
	stream, err := w.open(ctx, cancel, s, lasts)
	if err != nil {
		return "", err
	}
	defer w.end(cancel)
	defer stream.Stop()
	began := w.clock.Now()
	err = w.run(ctx, stream, lasts+watchSlack)
	f.spread = min(minSpread, f.maxBackoff)
	now := w.clock.Now()
	if stood := now.Sub(began); stood >= proof && stood < lasts-time.Second {
		// It was not asked to end yet: the server may be about to start anew.
		f.spread, f.away = min(spread(stood), f.maxBackoff), now
	}
	f.pace.first = f.spread / 2
	return w.version, err
}

// open starts a watch. Accepting it must not take longer than any other request.
func (w *watching) open(ctx context.Context, cancel func(), s *session, lasts time.Duration) (watch.Interface, error) {
	late := w.clock.AfterFunc(requestTimeout, cancel)
	seconds := int64(lasts / time.Second)
	opts := metav1.ListOptions{
		FieldSelector: w.selector(), ResourceVersion: w.version,
		Watch: true, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	stream, err := s.client.Get().Namespace(w.namespace).Resource("configmaps").
		VersionedParams(&opts, parameter).MaxRetries(0).Watch(context.WithValue(ctx, leftKey{}, w.left))
	if !late.Stop() && err == nil {
		stream.Stop()
		err = errSlow
	}
	return stream, err
}

// watching is one watch.
type watching struct {
	*follower
	version string
	left    *atomic.Int64 // how much may be read until the next event
	events  int
	reads   chan reading
	reading bool
	seen    int // events when the read under way began
}

// reading is the result of a plain read.
type reading struct {
	found *look
	err   error
}

func (w *watching) run(ctx context.Context, stream watch.Interface, limit time.Duration) error {
	began := w.clock.Now()
	proven, end := w.clock.NewTimer(proof), w.clock.NewTimer(limit)
	check := w.clock.NewTimer(jittered(w.check))
	defer proven.Stop()
	defer end.Stop()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-stream.ResultChan():
			if !ok {
				return w.ended(began)
			}
			if err := w.take(event); err != nil {
				return err
			}
		case <-proven.C():
			w.well(nil)
		case <-check.C():
			w.read(ctx)
		case r := <-w.reads:
			w.reading = false
			if r.err != nil {
				check.Reset(jittered(min(w.check, rereadAfter)))
				continue
			}
			if err := w.compare(r.found); err != nil {
				return err
			}
			check.Reset(jittered(w.check))
		case <-end.C():
			return errStalled
		}
	}
}

// ended judges the end of a stream.
func (w *watching) ended(began time.Time) error {
	if w.events == 0 && w.clock.Now().Sub(began) < proof {
		return errShort
	}
	return nil
}

// take delivers one event.
func (w *watching) take(event watch.Event) error {
	w.left.Store(maxAnswer)
	if event.Type == watch.Error {
		return streamError(event.Object)
	}
	m, ok := event.Object.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("the watch delivered a %T, not a ConfigMap", event.Object)
	}
	if !isVersion(m.ResourceVersion) {
		return errNoVersion
	}
	w.events++
	w.version = m.ResourceVersion
	switch {
	case event.Type == watch.Bookmark:
		w.well(nil)
	case m.Name != w.name:
	case event.Type == watch.Deleted:
		w.well(&look{missing: errors.New("the ConfigMap was deleted")})
	default:
		w.well(lookAt(m))
	}
	return nil
}

// read begins a plain read, on connections of its own.
func (w *watching) read(ctx context.Context) {
	w.reading, w.seen = true, w.events
	go func() {
		s, err := openSession(w.config, true)
		if err != nil {
			w.reads <- reading{err: err}
			return
		}
		defer s.close()
		found, _, err := w.list(ctx, s)
		w.reads <- reading{found, err}
	}()
}

// compare holds what a plain read found against what the watch delivered. Where
// events came meanwhile the watch is alive, and may know more than the read. A
// read that failed says nothing about the watch, and a server that is too busy
// for it would not be helped by ending that.
func (w *watching) compare(found *look) error {
	switch {
	case w.events != w.seen:
	case found.object != w.object:
		w.well(found)
		return errStalled
	default:
		w.emit(sighting{trouble: w.trouble, polling: w.polling})
	}
	return nil
}

// end waits for the read under way.
func (w *watching) end(cancel func()) {
	cancel()
	if w.reading {
		<-w.reads
	}
}

// jittered returns d, give or take a fifth.
func jittered(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5+1)
}
