// Package cache keeps the last good document of a client on disk, for processes
// that start while no source has one.
package cache

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// Options of a cache; all but Namespace, InForce, Clock and Note are needed.
type Options struct {
	// Source whose documents are kept.
	Source source.Source
	// Dir is a directory, which is made where it is not there. Several clients may
	// share it.
	Dir string
	// Client and Namespace are whose documents are kept. An empty namespace is
	// an unknown one.
	Client, Namespace string
	// InForce says whether a document that was delivered is in force; one that is
	// not is not kept over one that is. Nil means that all are.
	InForce func(*document.Document) bool
	// Clock of retries and of what is told; nil means clock.System.
	Clock clock.Clock
	// Note gets an error when the cache cannot be used or written, once for each
	// text and as soon as that is known, and nil when writing works again. It is
	// called from any goroutine.
	Note func(error)
}

// Cache is a source that says what another one says, keeps each document of it on
// disk, and puts what was kept in the place of a document that is not there: with
// an error, and source.ReasonCached. So it does with a document that is in the
// place of another one, which is lost or cannot be used (source.Update.StandsIn,
// or an error), as long as what was kept outdoes it: a restart must not go back
// where a process that goes on would not. A source that has the say and is well is
// never overruled.
//
// What was kept is read once, when it is needed, and used only when it is whole
// and was kept for the same client and namespace. Writing happens beside the
// delivery and never holds it up; Run returns after a write under way has ended.
// It is run once.
type Cache struct {
	Options
	create func(dir, pattern string) (tempFile, error)

	mu    sync.Mutex
	known bool   // kept and fault say what is on disk
	kept  *entry // nil when there is nothing, or it cannot be used
	fault error  // why not, until it was noted
}

// New returns a cache.
func New(o Options) *Cache {
	if dir, err := filepath.Abs(o.Dir); err == nil {
		o.Dir = dir // the process may change its own
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.InForce == nil {
		o.InForce = func(*document.Document) bool { return true }
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
	return &Cache{Options: o, create: createTemp}
}

// Run implements [source.Source].
func (c *Cache) Run(ctx context.Context, sink func(source.Update)) error {
	w := newWriter(c)
	go w.run()
	defer w.close()
	passed := false
	return c.Source.Run(ctx, func(u source.Update) {
		switch {
		case passed:
		case u.Document == nil:
			sink(c.substitute(u, c.needed(), "the source has no document"))
			return
		case u.StandsIn || u.Err != nil:
			if e := c.needed(); e != nil && e.outdoes(u) {
				sink(c.substitute(u, e, "the preferred source has not answered yet, and what stands in for it is older"))
				return
			}
		}
		passed = passed || u.Document != nil
		sink(u)
		if u.Raw != nil && c.InForce(u.Document) {
			w.keep(u)
		}
	})
}

// Earlier returns the document that an earlier process kept, and its file, until
// one of this process is taken for good; nil for none. It is for who has to refuse
// the document that came in its place.
func (c *Cache) Earlier() (doc *document.Document, path string) {
	if e := c.look(); e != nil {
		return e.document, c.path()
	}
	return nil, ""
}

// look reads what was kept, once. It is safe for concurrent use.
func (c *Cache) look() *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.known = true
		c.kept, c.fault = c.read()
	}
	return c.kept
}

// needed returns what was kept, and notes once why it cannot be used.
func (c *Cache) needed() *entry {
	found := c.look()
	c.mu.Lock()
	fault := c.fault
	c.fault = nil
	c.mu.Unlock()
	if fault != nil && !errors.Is(fault, errNothingKept) {
		c.Note(fault)
	}
	return found
}

// forget lets go of what was kept: this process has a document of its own.
func (c *Cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.kept, c.fault = true, nil, nil
}

// substitute puts what was kept, if anything, in the place of the document that
// an update has or has not. Why is for one that does not say itself what is wrong.
func (c *Cache) substitute(u source.Update, kept *entry, why string) source.Update {
	if kept == nil {
		return u
	}
	err := u.Err
	switch text := u.Message(); {
	case err != nil:
	case text != "":
		err = errors.New(text)
	default:
		err = errors.New(why)
	}
	u.Err = fmt.Errorf("%w; until there is a newer one, the document kept on %s is in force", err, kept.Kept.UTC().Format(time.RFC3339))
	u.Reason, u.Detail = source.ReasonCached, ""
	// Nobody has made sure of it.
	u.Check = nil
	u.Document, u.Raw, u.Origin = kept.document, kept.raw, c.path()
	return u
}
