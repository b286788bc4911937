package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// told is a source that says what the test tells it to.
type told struct {
	updates chan Update
	failure chan error
	check   *Check
}

func newTold() *told {
	return &told{make(chan Update, 1), make(chan error, 1), &Check{}}
}

func (s *told) Run(ctx context.Context, sink func(Update)) error {
	for {
		select {
		case u := <-s.updates:
			sink(u)
		case err := <-s.failure:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// pair is a watch that is preferred to a mount.
type pair struct {
	t            *testing.T
	watch, mount *told
	*running
}

func withPair(t *testing.T, test func(p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{t: t, watch: newTold(), mount: newTold()}
		p.running = start(t, Prefer(p.watch, p.mount))
		test(p)
	})
}

// has makes a source well and have the document of a client.
func (p *pair) has(s *told, client string) {
	p.t.Helper()
	s.check.Mark(time.Now())
	p.says(s, Update{Document: parsed(p.t, docFor(p.t, client))})
}

// loses makes a source keep a document and say why it can be no newer one.
func (p *pair) loses(s *told, client string, reason Reason) {
	p.t.Helper()
	u := Update{Err: errors.New("it is " + string(reason)), Reason: reason}
	if client != "" {
		u.Document = parsed(p.t, docFor(p.t, client))
	}
	p.says(s, u)
}

func (p *pair) says(s *told, u Update) {
	u.Delivery, u.Origin, u.Check = DeliveryMount, "the mount", s.check
	if s == p.watch {
		u.Delivery, u.Origin = DeliveryWatch, "the API"
	}
	s.updates <- u
	advance(time.Second)
}

// want checks what is in force and what is said about it.
func (p *pair) want(client string, reason Reason, delivery Delivery, origin string, stale bool) {
	p.t.Helper()
	u := p.last()
	if u.Document == nil || u.Document.Client != client || u.Reason != reason || u.Delivery != delivery || u.Origin != origin || (u.Err != nil) != stale {
		p.t.Errorf("want %q, reason %q, delivery %s from %s, stale %t; got %s", client, reason, delivery, origin, stale, describeUpdate(u))
	}
}

func parsed(t testing.TB, data []byte) *document.Document {
	t.Helper()
	doc, err := document.Parse(data)
	must(t, err)
	return doc
}

func TestThePreferredSourceHasTheSay(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "old")
		p.want("old", ReasonNone, DeliveryMount, "the mount", false)
		p.has(p.watch, "new")
		p.want("new", ReasonNone, DeliveryWatch, "the API", false)
		p.has(p.mount, "older")
		p.want("new", ReasonNone, DeliveryWatch, "the API", false)
		p.wantUpdates(2)
	})
}

func TestNothingIsSaidBeforeThereIsADocumentOrAllHaveSpoken(t *testing.T) {
	withPair(t, func(p *pair) {
		p.loses(p.mount, "", ReasonNoDocument)
		p.wantUpdates(0)
		p.loses(p.watch, "", ReasonUnreachable)
		p.wantUpdates(1)
		u := p.last()
		if u.Document != nil || u.Reason != ReasonUnreachable || u.Delivery != DeliveryMount {
			t.Errorf("without a document: %s", describeUpdate(u))
		}
		p.has(p.mount, "a")
		p.want("a", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
}

func TestALostSourceHandsOverTheSameRevision(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "a")
		p.loses(p.watch, "a", ReasonForbidden)
		p.want("a", ReasonForbidden, DeliveryMount, "the mount", false)
		if m := p.last().Message(); !strings.Contains(m, "it is Forbidden") || !strings.Contains(m, "the mount") {
			t.Errorf("the message %q names neither cause nor stand-in", m)
		}
		p.has(p.mount, "b")
		p.want("b", ReasonForbidden, DeliveryMount, "the mount", false)
		p.has(p.watch, "c")
		p.want("c", ReasonNone, DeliveryWatch, "the API", false)
	})
}

// The mount has an older revision at the time when the watch is lost. It stays
// out, however long that takes.
func TestAnOlderDocumentDoesNotTakeOver(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "b")
		p.loses(p.watch, "b", ReasonUnreachable)
		p.want("b", ReasonUnreachable, DeliveryMount, "the API", true)
		advance(24 * time.Hour)
		p.want("b", ReasonUnreachable, DeliveryMount, "the API", true)
		p.wantUpdates(3)
		// It has caught up.
		p.has(p.mount, "b")
		p.want("b", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
}

// The same for a source that never says when it was last sure: what the mount
// has had since before the document in force came is older, however long it has
// had it.
func TestAnOlderDocumentDoesNotTakeOverFromASourceThatCannotCheck(t *testing.T) {
	withPair(t, func(p *pair) {
		p.says(p.watch, Update{Document: parsed(t, docFor(t, "a"))})
		p.has(p.mount, "a")
		advance(2 * mountLag)
		p.says(p.watch, Update{Document: parsed(t, docFor(t, "b"))})
		p.loses(p.watch, "b", ReasonUnreachable)
		p.want("b", ReasonUnreachable, DeliveryMount, "the API", true)
		advance(24 * time.Hour)
		p.want("b", ReasonUnreachable, DeliveryMount, "the API", true)
		p.has(p.mount, "b")
		p.want("b", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
}

// What comes long after the last change of the watch can only be newer. Soon
// after, it may also be what the watch missed while it was away, on its way
// through the kubelet.
func TestADocumentThatNeverWasInForceTakesOver(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "b")
		p.loses(p.watch, "b", ReasonUnreachable)
		advance(mountLag)
		p.has(p.mount, "c")
		p.want("c", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
	withPair(t, func(p *pair) {
		p.has(p.watch, "b")
		p.loses(p.watch, "b", ReasonUnreachable)
		p.has(p.mount, "c")
		p.want("b", ReasonUnreachable, DeliveryMount, "the API", true)
		advance(mountLag)
		p.want("c", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
}

// generations makes a document from policies, each by uid and generation.
func generations(t *testing.T, policies map[string]int64) *document.Document {
	t.Helper()
	d := &document.Document{}
	for uid, n := range policies {
		d.Policies = append(d.Policies, document.PolicyRef{Name: "p-" + uid, UID: uid, Generation: n})
	}
	return parsed(t, rendered(t, d))
}

// The generation of a policy tells what is newer, whenever it came.
func TestGenerationsTellWhatIsNewer(t *testing.T) {
	withPair(t, func(p *pair) {
		at := func(n int64) Update { return Update{Document: generations(t, map[string]int64{"u": n})} }
		generation := func() int64 { return p.last().Document.Policies[0].Generation }
		p.says(p.mount, at(3))
		p.watch.check.Mark(time.Now())
		p.says(p.watch, at(5))
		lost := at(5)
		lost.Err, lost.Reason = errors.New("gone"), ReasonUnreachable
		p.says(p.watch, lost)
		p.says(p.mount, at(4))
		advance(24 * time.Hour)
		if generation() != 5 {
			t.Errorf("generation %d is in force, an older one", generation())
		}
		p.says(p.mount, at(6))
		if generation() != 6 {
			t.Errorf("generation %d is in force, not the newest", generation())
		}
	})
}

// withMountFirst is a mount that is preferred to a watch.
func withMountFirst(t *testing.T, test func(p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{t: t, watch: newTold(), mount: newTold()}
		p.running = start(t, Prefer(p.mount, p.watch))
		test(p)
	})
}

// A mount that is preferred comes back with what it had, while the watch knows of
// more.
func TestAPreferredSourceIsBackWithAnOlderDocument(t *testing.T) {
	at := func(n int64) Update { return Update{Document: generations(t, map[string]int64{"u": n})} }
	lost := func(n int64) Update {
		u := at(n)
		u.Err, u.Reason = errors.New("gone"), ReasonUnreadable
		return u
	}
	inForce := func(p *pair, want int64, stale bool) {
		t.Helper()
		u := p.last()
		if n := u.Document.Policies[0].Generation; n != want || (u.Err != nil) != stale {
			t.Errorf("want generation %d, stale %t; got %d, %s", want, stale, n, describeUpdate(u))
		}
	}
	begin := func(p *pair) {
		p.says(p.mount, at(1))
		p.says(p.watch, at(2))
		inForce(p, 1, false) // the mount has the say
		p.says(p.mount, lost(1))
		inForce(p, 2, false)
		p.says(p.mount, at(1))
		inForce(p, 2, false)
		if u := p.last(); u.Delivery != DeliveryWatch || u.Reason != ReasonNone || u.StandsIn {
			t.Errorf("while the mount is behind: %s", describeUpdate(u))
		}
	}
	t.Run("it catches up", func(t *testing.T) {
		withMountFirst(t, func(p *pair) {
			begin(p)
			p.says(p.watch, at(3))
			inForce(p, 3, false)
			p.says(p.mount, at(2))
			inForce(p, 3, false)
			told := len(p.updates())
			p.says(p.mount, at(3))
			inForce(p, 3, false)
			if u := p.last(); u.Delivery != DeliveryMount {
				t.Errorf("it said %s", describeUpdate(u))
			}
			advance(time.Hour)
			p.wantUpdates(told + 1)
		})
	})
	t.Run("it does not", func(t *testing.T) {
		withMountFirst(t, func(p *pair) {
			begin(p)
			advance(mountLag - 10*time.Second)
			inForce(p, 2, false)
			advance(10 * time.Second)
			inForce(p, 1, false)
			if u := p.last(); u.Delivery != DeliveryMount {
				t.Errorf("it said %s", describeUpdate(u))
			}
		})
	})
	t.Run("the watch is lost meanwhile", func(t *testing.T) {
		withMountFirst(t, func(p *pair) {
			begin(p)
			p.says(p.watch, lost(2))
			inForce(p, 2, true)
			advance(mountLag)
			inForce(p, 1, false)
		})
	})
	t.Run("it is an API server, which does not lag", func(t *testing.T) {
		withPair(t, func(p *pair) {
			p.says(p.mount, at(2))
			p.says(p.watch, lost(2))
			inForce(p, 2, false)
			p.says(p.watch, at(1)) // of a cluster that was restored
			inForce(p, 1, false)
		})
	})
	t.Run("the generations do not tell", func(t *testing.T) {
		withMountFirst(t, func(p *pair) {
			p.has(p.mount, "a")
			advance(mountLag)
			p.loses(p.mount, "a", ReasonUnreadable)
			p.has(p.watch, "b")
			p.want("b", ReasonUnreadable, DeliveryWatch, "the API", false)
			p.has(p.mount, "a")
			p.want("a", ReasonNone, DeliveryMount, "the mount", false)
		})
	})
}

// An update says whether another source has the say once it is there.
func TestWhoStandsInSaysSo(t *testing.T) {
	standsIn := func(p *pair, want bool) {
		t.Helper()
		if u := p.last(); u.StandsIn != want {
			t.Errorf("want %t of %s", want, describeUpdate(u))
		}
	}
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		standsIn(p, true) // the watch has not spoken
		p.loses(p.watch, "", ReasonNoDocument)
		standsIn(p, false)
		p.has(p.watch, "a")
		standsIn(p, false)
		p.loses(p.watch, "a", ReasonUnreachable)
		standsIn(p, true)
		p.loses(p.mount, "a", ReasonUnreadable) // nobody is left: the watch keeps the say
		p.has(p.watch, "a")
		standsIn(p, false)
		p.loses(p.watch, "a", ReasonInvalidUpdate)
		standsIn(p, false)
	})
	withPair(t, func(p *pair) {
		p.watch.failure <- errors.New("set up wrongly")
		p.has(p.mount, "a")
		standsIn(p, true)
	})
}

// After the watch is lost the mount changes to what the watch had before its
// last document: either the mount lags, or somebody rolled back.
func TestADocumentThatWasJustReplacedHasToStandFirst(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "a")
		p.has(p.watch, "b")
		p.has(p.watch, "c")
		p.loses(p.watch, "c", ReasonForbidden)
		p.has(p.mount, "b") // on its way to c
		p.want("c", ReasonForbidden, DeliveryMount, "the API", true)
		advance(mountLag / 2)
		p.has(p.mount, "c")
		p.want("c", ReasonForbidden, DeliveryMount, "the mount", false)
	})
	withPair(t, func(p *pair) {
		p.has(p.watch, "b")
		p.has(p.watch, "c")
		p.loses(p.watch, "c", ReasonForbidden)
		p.has(p.mount, "b")
		p.want("c", ReasonForbidden, DeliveryMount, "the API", true)
		advance(mountLag)
		p.want("b", ReasonForbidden, DeliveryMount, "the mount", false)
	})
	withPair(t, func(p *pair) {
		p.has(p.watch, "b")
		p.has(p.watch, "c")
		advance(mountLag)
		p.loses(p.watch, "c", ReasonForbidden)
		p.has(p.mount, "b") // no mount lags that far behind
		p.want("b", ReasonForbidden, DeliveryMount, "the mount", false)
	})
}

// The change came while the watch had stalled and nobody knew.
func TestWhatChangedAfterTheLastCheckIsNewer(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.watch, "a")
		p.has(p.mount, "a")
		advance(mountLag)
		p.has(p.mount, "b")
		p.want("a", ReasonNone, DeliveryWatch, "the API", false)
		p.loses(p.watch, "a", ReasonUnreachable)
		p.want("b", ReasonUnreachable, DeliveryMount, "the mount", false)
	})
}

// A source that refuses its newest document knows that there is nothing newer
// that could be used; the mount will come to the same.
func TestABadDocumentIsNoLossOfTheSource(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "a")
		p.loses(p.watch, "a", ReasonInvalidUpdate)
		p.want("a", ReasonInvalidUpdate, DeliveryWatch, "the API", true)
	})
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.loses(p.watch, "", ReasonInvalidInitial)
		p.want("a", ReasonInvalidUpdate, DeliveryMount, "the mount", true)
	})
}

func TestWhenAllAreLostTheDocumentStays(t *testing.T) {
	withPair(t, func(p *pair) {
		p.has(p.mount, "a")
		p.has(p.watch, "b")
		p.loses(p.mount, "a", ReasonSourceGone)
		p.want("b", ReasonNone, DeliveryWatch, "the API", false)
		p.loses(p.watch, "b", ReasonUnreachable)
		p.want("b", ReasonUnreachable, DeliveryWatch, "the API", true)
	})
	withPair(t, func(p *pair) {
		p.loses(p.mount, "a", ReasonSourceGone)
		p.want("a", ReasonSourceGone, DeliveryMount, "the mount", true)
	})
}

func TestASourceSetUpWronglyIsStoodInFor(t *testing.T) {
	withPair(t, func(p *pair) {
		p.watch.failure <- errors.New("not in a cluster")
		p.has(p.mount, "a")
		p.want("a", ReasonSetUp, DeliveryMount, "the mount", false)
		if m := p.last().Message(); !strings.Contains(m, "not in a cluster") {
			t.Errorf("the message %q has no cause", m)
		}
	})
	withPair(t, func(p *pair) {
		p.watch.failure <- errors.New("not in a cluster")
		p.loses(p.mount, "", ReasonUnreadable)
		if u := p.last(); u.Document != nil || u.Reason != ReasonSetUp || u.Delivery != DeliveryMount {
			t.Errorf("without any document: %s", describeUpdate(u))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := newTold(), newTold()
		a.failure <- errors.New("first mistake")
		b.failure <- errors.New("second mistake")
		err := Prefer(a, b).Run(t.Context(), func(u Update) {})
		if err == nil || !strings.Contains(err.Error(), "first mistake") || !strings.Contains(err.Error(), "second mistake") {
			t.Errorf("Run returned %v", err)
		}
	})
	for _, s := range []Source{Prefer(), Prefer(newTold(), nil)} {
		if err := s.Run(t.Context(), func(Update) {}); err == nil {
			t.Error("Run took no or a nil source")
		}
	}
}

// What is remembered of replaced revisions is bounded by time and number.
func TestReplacedRevisionsAreForgotten(t *testing.T) {
	for _, pace := range []time.Duration{time.Millisecond, 10 * time.Second} {
		c, now := newChoice(1), time.Now()
		for i := range 1000 {
			now = now.Add(pace)
			c.put(Update{Document: &document.Document{Revision: time.Duration(i).String()}}, now)
		}
		if n := len(c.replaced); n == 0 || n > maxReplaced || n > int(mountLag/pace) {
			t.Errorf("one each %s: %d revisions are remembered", pace, n)
		}
	}
}
