package source

import (
	"errors"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/internal/lineage"
)

// mountLag is how long a mounted ConfigMap may show an older content than the
// API server has: the kubelet was measured to take 28 to 80 s, and is not
// guaranteed to take less than twice that.
const mountLag = 3 * time.Minute

// maxReplaced bounds how many replaced revisions are remembered.
const maxReplaced = 64

// choice decides which of several sources has the say. It is pure: time is an
// argument.
type choice struct {
	contenders []contender
	inForce    int    // whose document is in force, -1 for nobody's
	document   Update // that document: Document, Raw, Origin and Check count
	// replaced tells when a revision in force was replaced, for as long as
	// mountLag and for at most maxReplaced of them.
	replaced map[string]time.Time
}

// contender is one source and what it said last.
type contender struct {
	spoke   bool
	update  Update
	changed time.Time // when update.Document became another revision
	back    time.Time // when the source was lost no more
	ended   error
}

func newChoice(n int) *choice {
	return &choice{contenders: make([]contender, n), inForce: -1, replaced: map[string]time.Time{}}
}

// hear takes what a source said.
func (c *choice) hear(said saying, now time.Time) {
	from := &c.contenders[said.source]
	from.spoke = true
	if said.err != nil {
		from.ended = said.err
		from.update.Err, from.update.Reason = said.err, ReasonSetUp
		return
	}
	if revisionOf(from.update) != revisionOf(said.update) {
		from.changed = now
	}
	wasLost := from.lost()
	from.update = said.update
	if wasLost && !from.lost() {
		from.back = now
	}
}

// failure returns why nothing will ever be delivered, nil as long as one source
// runs.
func (c *choice) failure() error {
	var all []error
	for _, from := range c.contenders {
		if from.ended == nil {
			return nil
		}
		all = append(all, from.ended)
	}
	return errors.Join(all...)
}

// decide returns the state of all sources as one, and after how long it may be
// another one though nobody says anything; zero for never. There is none until a
// document is there or every source has spoken.
func (c *choice) decide(now time.Time) (u Update, wait time.Duration, ok bool) {
	next := c.next()
	held := false
	if next >= 0 && next != c.inForce {
		if wait = c.held(next, now); wait != 0 {
			held = true
		} else {
			c.inForce = next
		}
	}
	if c.inForce < 0 {
		c.inForce = c.any()
	}
	if c.inForce < 0 {
		return c.nothing(), 0, c.allSpoke()
	}
	c.put(c.contenders[c.inForce].update, now)
	u = c.tell()
	if held && c.contenders[c.inForce].lost() {
		u.Delivery = c.contenders[next].update.Delivery
	}
	return u, max(wait, 0), true
}

// put makes the document of an update the one in force.
func (c *choice) put(u Update, now time.Time) {
	before, after := revisionOf(c.document), revisionOf(u)
	c.document = u
	if before == after {
		return
	}
	delete(c.replaced, after)
	if before != "" {
		c.replaced[before] = now
	}
	c.forget(now)
}

// forget drops what was replaced too long ago to matter, and the earliest of too
// many.
func (c *choice) forget(now time.Time) {
	earliest := ""
	for revision, at := range c.replaced {
		if now.Sub(at) >= mountLag {
			delete(c.replaced, revision)
		} else if earliest == "" || at.Before(c.replaced[earliest]) {
			earliest = revision
		}
	}
	if len(c.replaced) > maxReplaced {
		delete(c.replaced, earliest)
	}
}

// next is the first source that has a document and is not lost, -1 for none.
func (c *choice) next() int {
	for i, from := range c.contenders {
		if from.update.Document != nil && !from.lost() {
			return i
		}
	}
	return -1
}

// any is the first source that has a document, -1 for none.
func (c *choice) any() int {
	for i, from := range c.contenders {
		if from.update.Document != nil {
			return i
		}
	}
	return -1
}

// forGood is the wait for a document that only its change can put in force.
const forGood = -1

// held returns 0 when the document of a source may replace the one in force,
// forGood when it is older, and else how long it has to stand yet.
func (c *choice) held(next int, now time.Time) time.Duration {
	from := c.contenders[next]
	if c.inForce < 0 || revisionOf(from.update) == revisionOf(c.document) {
		return 0
	}
	order := lineage.Compare(from.update.Document, c.document.Document)
	if next < c.inForce {
		return from.heldBack(order, now)
	}
	switch {
	case order > 0:
		return 0
	case order < 0, !from.changed.After(c.sure()):
		return forGood
	case from.changed.Sub(c.obsolete(revisionOf(from.update))) >= mountLag:
		return 0
	}
	return max(mountLag-now.Sub(from.changed), 0)
}

// heldBack is how long a preferred mount that is back has to wait yet, since what
// it has is older. It has the say and may be right, in a cluster that was
// restored from a backup; that no mount lags behind for longer bounds the wait.
// The API server does not lag.
func (c contender) heldBack(order int, now time.Time) time.Duration {
	if order >= 0 || c.update.Delivery == DeliveryWatch {
		return 0
	}
	since := c.changed
	if c.back.After(since) {
		since = c.back
	}
	return max(mountLag-now.Sub(since), 0)
}

// sure is when the source in force was last sure of its document: at its last
// check, or when it delivered it, for those that cannot check.
func (c *choice) sure() time.Time {
	checked, delivered := c.document.Check.Last(), c.contenders[c.inForce].changed
	if checked.After(delivered) {
		return checked
	}
	return delivered
}

// obsolete is the time since when a document other than the one in force may be
// an older one: since it was replaced, if it was in force, else since the one in
// force came.
func (c *choice) obsolete(revision string) time.Time {
	if at, ok := c.replaced[revision]; ok {
		return at
	}
	return c.contenders[c.inForce].changed
}

// tell returns the update of the source in force, with a warning where it
// stands in for a source that is lost, and with the error of one before it that
// is there and has nothing but a document that cannot be used.
func (c *choice) tell() Update {
	u := c.contenders[c.inForce].update
	u.StandsIn = c.standsIn()
	if c.contenders[c.inForce].lost() || u.Err != nil {
		return u
	}
	for _, before := range c.contenders[:c.inForce] {
		switch {
		case before.lost():
			u.Reason = before.update.Reason
			u.Detail = before.update.Message() + "; until it is back, documents come from " + u.Origin
			return u
		case before.update.Reason == ReasonInvalidInitial:
			u.Err, u.Reason = before.update.Err, ReasonInvalidUpdate
			return u
		}
	}
	return u
}

// standsIn reports whether a source that is preferred to the one in force is lost,
// or has not spoken yet.
func (c *choice) standsIn() bool {
	for _, before := range c.contenders[:c.inForce] {
		if before.lost() || !before.spoke {
			return true
		}
	}
	return c.contenders[c.inForce].update.StandsIn
}

// nothing is the update of sources without any document: the first error that
// says more than that there is none.
func (c *choice) nothing() Update {
	told := 0
	for i := len(c.contenders) - 1; i >= 0; i-- {
		if c.contenders[i].update.Reason != ReasonNoDocument || c.contenders[told].update.Reason == ReasonNoDocument {
			told = i
		}
	}
	u := c.contenders[told].update
	for _, from := range c.contenders {
		if !from.lost() || u.Delivery == "" {
			u.Delivery = from.update.Delivery
		}
		if !from.lost() {
			break
		}
	}
	return u
}

func (c *choice) allSpoke() bool {
	for _, from := range c.contenders {
		if !from.spoke {
			return false
		}
	}
	return true
}

// lost reports whether a source does not know any more what its newest document
// is.
func (c contender) lost() bool {
	switch c.update.Reason {
	case ReasonUnreachable, ReasonForbidden, ReasonUnreadable, ReasonSourceGone, ReasonSetUp:
		return c.update.Err != nil
	default:
		return false
	}
}

func revisionOf(u Update) string {
	if u.Document == nil {
		return ""
	}
	return u.Document.Revision
}
