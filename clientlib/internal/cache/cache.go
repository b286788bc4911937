// Package cache keeps the last good document of a client on disk, for processes
// that start while no source has one.
package cache

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/internal/lineage"
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
	// InForce says whether a document that was delivered came into force; one that
	// did not is not kept over one that did. Nil means that all do.
	InForce func(*document.Document) bool
	// Clock of retries and of what is told; nil means clock.System.
	Clock clock.Clock
	// Note gets an error when the cache cannot be used or written, once for each
	// text and as soon as that is known, and nil when writing works again. It is
	// called from any goroutine.
	Note func(error)
}

// New returns a source that says what another one says, keeps each document of
// it on disk, and puts what was kept in the place of a document that is not
// there: with an error, and source.ReasonCached. So it does with a document of a
// source that stands in for another one (source.Update.StandsIn), as long as the
// generations of the policies say that what was kept is newer: a restart must not
// go back where a process that goes on would not. The source that has the say is
// never overruled.
//
// What was kept is read once, when it is needed, and used only when it is whole
// and was kept for the same client and namespace. Writing happens beside the
// delivery and never holds it up; Run returns after a write under way has ended.
func New(o Options) source.Source {
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
	return &cached{o, createTemp}
}

type cached struct {
	Options
	create func(dir, pattern string) (tempFile, error)
}

// Run implements [source.Source].
func (c *cached) Run(ctx context.Context, sink func(source.Update)) error {
	w := newWriter(c)
	go w.run()
	defer w.close()
	kept := c.whenNeeded()
	return c.Source.Run(ctx, func(u source.Update) {
		if u.Document == nil {
			sink(c.substitute(u, kept(), "the source has no document"))
			return
		}
		if u.StandsIn {
			if e := kept(); e != nil && lineage.Compare(e.document, u.Document) > 0 {
				sink(c.substitute(u, e, "the preferred source has not answered yet, and what stands in for it is older"))
				return
			}
		}
		kept = nothing
		sink(u)
		if u.Raw != nil && c.InForce(u.Document) {
			w.keep(u)
		}
	})
}

func nothing() *entry { return nil }

// whenNeeded reads what was kept at the first call; nil if it cannot be used.
func (c *cached) whenNeeded() func() *entry {
	var found *entry
	read := false
	return func() *entry {
		if read {
			return found
		}
		read = true
		var err error
		if found, err = c.read(); err != nil && !errors.Is(err, errNothingKept) {
			c.Note(err)
		}
		return found
	}
}

// substitute puts what was kept, if anything, in the place of the document that
// an update has or has not. Why is for one that does not say itself what is wrong.
func (c *cached) substitute(u source.Update, kept *entry, why string) source.Update {
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
