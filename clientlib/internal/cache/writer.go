package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const (
	// retryAfter is how long a write that failed waits, unless there is another
	// document first.
	retryAfter = time.Minute
	// abandonedAfter is the age at which a temporary file is one that a process
	// left behind.
	abandonedAfter = 10 * time.Minute
)

// tempFile is what writing needs of an os.File.
type tempFile interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// createTemp makes a file that its owner alone may read.
func createTemp(dir, pattern string) (tempFile, error) { return os.CreateTemp(dir, pattern) }

// writer writes the newest document, in a goroutine of its own, so that a slow
// disk holds nothing up.
type writer struct {
	*cached
	inbox chan source.Update // the newest that was not taken up yet
	quit  chan struct{}
	done  chan struct{}

	written string // revision on disk, "" for unknown
	told    string // trouble that was told last
}

func newWriter(c *cached) *writer {
	return &writer{cached: c, inbox: make(chan source.Update, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// keep takes the place of a document that was not taken up. It is called from
// one goroutine.
func (w *writer) keep(u source.Update) {
	select {
	case <-w.inbox:
	default:
	}
	w.inbox <- u
}

// close writes what is left and ends.
func (w *writer) close() {
	close(w.quit)
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	var pending *source.Update
	for {
		var retry clock.Timer
		var due <-chan time.Time
		if pending != nil {
			retry = w.Clock.NewTimer(retryAfter)
			due = retry.C()
		}
		ended := false
		select {
		case u := <-w.inbox:
			pending = &u
		case <-due:
		case <-w.quit:
			ended = true
			select {
			case u := <-w.inbox:
				pending = &u
			default:
			}
		}
		if retry != nil {
			retry.Stop()
		}
		if pending != nil && w.write(*pending) {
			pending = nil
		}
		if ended {
			return
		}
	}
}

// write puts a document on disk unless it is there, and tells how that went if
// it went otherwise before.
func (w *writer) write(u source.Update) bool {
	if w.written == "" {
		w.sweep()
		if e, err := w.read(); err == nil && bytes.Equal(e.raw, u.Raw) {
			w.written = e.Revision
		}
	}
	var err error
	if w.written != u.Document.Revision {
		if err = w.replace(u); err == nil {
			w.written = u.Document.Revision
		}
	}
	text := ""
	if err != nil {
		err = fmt.Errorf("the policy is not kept in %s: %w", w.Dir, cause(err))
		text = err.Error()
	}
	if text != w.told {
		w.told = text
		w.Note(err)
	}
	return err == nil
}

// replace makes the file the one of a document: the old one or the new one,
// never a part, whenever the process or the machine ends.
func (w *writer) replace(u source.Update) (err error) {
	content, err := w.encode(u)
	if err != nil {
		return err
	}
	f, err := w.create(w.Dir, "."+w.name()+"-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), w.path()); err != nil {
		return err
	}
	syncDir(w.Dir)
	return nil
}

// syncDir makes a rename last. Some systems cannot, and lose the newest document
// at worst.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// sweep deletes what processes that were killed while they wrote left behind.
func (w *writer) sweep() {
	entries, err := os.ReadDir(w.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if ours, _ := filepath.Match("."+w.name()+"-*.tmp", e.Name()); !ours {
			continue
		}
		if info, err := e.Info(); err == nil && w.Clock.Now().Sub(info.ModTime()) > abandonedAfter {
			_ = os.Remove(filepath.Join(w.Dir, e.Name()))
		}
	}
}
