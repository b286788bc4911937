package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// world is a cluster with one ConfigMap, a process that watches it, and a
// kubelet that mounts it late.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	choice  *choice
	first   string    // who is preferred, the watch or the mount
	history []version // of the ConfigMap; the last one is the truth
	watch   struct {
		up, stalled bool
		shown       int // -1 for nothing yet
		check       *Check
	}
	mount struct {
		lost  bool
		shown int
		check *Check
	}
	inForce int
	log     []string
}

type version struct {
	at  time.Time
	doc *document.Document
}

func newWorld(t *testing.T, seed uint64, first string) *world {
	w := &world{t: t, first: first, random: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), choice: newChoice(2), inForce: -1}
	w.watch.shown, w.watch.check = -1, &Check{}
	w.mount.shown, w.mount.check = -1, &Check{}
	w.change()
	return w
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8s ", w.now.Sub(w.history[0].at).Round(time.Second))+fmt.Sprintf(format, args...))
}

// change makes a new version: of the same policy, or of another one, which makes
// the generations say nothing. A mount that is preferred has the say where they
// do.
func (w *world) change() {
	n := len(w.history)
	uid := "u"
	if w.first == "watch" && w.random.IntN(2) == 0 {
		uid = fmt.Sprint("u", n)
	}
	doc := &document.Document{Revision: fmt.Sprint("r", n), Policies: []document.PolicyRef{{UID: uid, Generation: int64(n)}}}
	w.history = append(w.history, version{w.now, doc})
	w.note("version %d", n)
	w.deliver()
}

func (w *world) newest() int { return len(w.history) - 1 }

// deliver makes a watch that works show the truth.
func (w *world) deliver() {
	if !w.watch.up || w.watch.stalled {
		return
	}
	w.watch.check.Mark(w.now)
	w.watch.shown = w.newest()
	w.say("watch", w.update(w.watch.shown, w.watch.check))
}

func (w *world) update(shown int, check *Check) Update {
	u := Update{Check: check}
	if shown >= 0 {
		u.Document = w.history[shown].doc
	}
	return u
}

func (w *world) say(who string, u Update) {
	source := 1
	if who == w.first {
		source = 0
	}
	w.choice.hear(saying{source: source, update: u}, w.now)
	w.look()
}

// due is the age at which the kubelet shows a version, since the next step may be
// the longest.
const (
	longest = 30 * time.Second
	due     = mountLag - longest
)

// sync makes the kubelet show a version that is not older than it may be.
func (w *world) sync() {
	oldest := max(w.mount.shown, 0)
	for i := range w.history {
		if i < w.newest() && w.now.Sub(w.history[i+1].at) >= due {
			oldest = max(oldest, i+1)
		}
	}
	w.mount.shown = oldest + w.random.IntN(len(w.history)-oldest)
	w.mount.check.Mark(w.now)
	w.mount.lost = false
	w.note("the mount shows %d", w.mount.shown)
	w.say("mount", w.update(w.mount.shown, w.mount.check))
}

// late reports whether the kubelet has to sync now.
func (w *world) late() bool {
	next := w.mount.shown + 1
	return next < len(w.history) && w.now.Sub(w.history[next].at) >= due
}

func (w *world) lose() {
	w.watch.up = false
	u := w.update(w.watch.shown, w.watch.check)
	u.Err, u.Reason = errors.New("away"), ReasonUnreachable
	w.note("the watch is lost at %d", w.watch.shown)
	w.say("watch", u)
}

// loseMount makes the volume unreadable; it is back with what it showed, or more.
func (w *world) loseMount() {
	w.mount.lost = true
	u := w.update(w.mount.shown, w.mount.check)
	u.Err, u.Reason = errors.New("no rights"), ReasonUnreadable
	w.note("the mount is lost at %d", w.mount.shown)
	w.say("mount", u)
}

func (w *world) regainMount() {
	w.mount.lost = false
	w.note("the mount is back at %d", w.mount.shown)
	w.say("mount", w.update(w.mount.shown, w.mount.check))
}

// look holds what is decided against the truth: a version never goes back.
func (w *world) look() {
	u, _, ok := w.choice.decide(w.now)
	if !ok || u.Document == nil {
		return
	}
	var n int
	if _, err := fmt.Sscanf(u.Document.Revision, "r%d", &n); err != nil {
		w.t.Fatal(err)
	}
	if n != w.inForce {
		w.note("in force: %d", n)
	}
	if n < w.inForce {
		w.t.Fatalf("version %d replaced version %d:\n%s", n, w.inForce, strings.Join(w.log, "\n"))
	}
	w.inForce = n
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.random.Int64N(int64(longest))))
	w.look()
	if w.late() {
		w.sync()
	}
	events := 8
	if w.first == "mount" {
		events = 10
	}
	switch w.random.IntN(events) {
	case 0, 1:
		w.change()
	case 2, 3:
		w.sync()
	case 4:
		if w.watch.up {
			w.lose()
		}
	case 5, 6:
		w.watch.up, w.watch.stalled = true, false
		w.note("the watch is back")
		w.deliver()
	case 7:
		w.watch.stalled = true
	case 8:
		if !w.mount.lost && w.mount.shown >= 0 {
			w.loseMount()
		}
	case 9:
		if w.mount.lost {
			w.regainMount()
		}
	}
}

// Whatever is lost when, a document is never replaced by an older one, and in
// the end the newest is in force.
func TestHandingOverNeverGoesBack(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(t, seed, "watch")
		w.live(seed%2 == 0)
		w.wantNewest(seed)
	}
}

// Nor does it where a mount is preferred to the watch, as long as generations
// tell.
func TestHandingOverToAMountFirstNeverGoesBack(t *testing.T) {
	for seed := range uint64(2000) {
		w := newWorld(t, seed, "mount")
		w.live(true)
		w.wantNewest(seed)
	}
}

// live goes through a history. In the end all that goes on is the kubelet, or all
// that comes back is the watch.
func (w *world) live(kubelet bool) {
	for range 60 {
		w.step()
	}
	if !kubelet {
		w.watch.up, w.watch.stalled = true, false
		w.deliver()
		return
	}
	if w.watch.up {
		w.lose()
	}
	w.now = w.now.Add(mountLag)
	w.mount.shown = w.newest()
	w.mount.check.Mark(w.now)
	w.say("mount", w.update(w.mount.shown, w.mount.check))
	w.now = w.now.Add(mountLag)
	w.look()
}

func (w *world) wantNewest(seed uint64) {
	w.t.Helper()
	if w.inForce != w.newest() {
		w.t.Fatalf("seed %d: in the end version %d is in force, not %d:\n%s", seed, w.inForce, w.newest(), strings.Join(w.log, "\n"))
	}
}
