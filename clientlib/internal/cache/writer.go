package cache

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const (
	// settleAfter is how long the first document of a process has to be in force
	// before it takes the place of what was kept: programs name what they can do
	// after they have it, and refuse it then.
	settleAfter = 10 * time.Second
	// retryAfter is how long a write that failed waits, unless there is another
	// document first.
	retryAfter = time.Minute
	// abandonedAfter is the age at which a temporary file is one that a process
	// left behind.
	abandonedAfter = 10 * time.Minute
	// lookAfter is the time between two looks whether the file is still there:
	// there are programs that delete what nobody changes.
	lookAfter = time.Hour
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
	*Cache
	inbox chan source.Update // the newest that was not taken up yet
	quit  chan struct{}
	done  chan struct{}

	newest  *source.Update // nil before the first one
	pending bool           // newest has to be written
	written string         // revision on disk, "" for unknown
	told    string         // trouble that was told last
}

func newWriter(c *Cache) *writer {
	return &writer{Cache: c, inbox: make(chan source.Update, 1), quit: make(chan struct{}), done: make(chan struct{})}
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
	w.look() // before anything else is written there
	w.tell(w.open())
	if w.begin() {
		w.settle()
		for w.await() {
			w.settle()
		}
	}
	w.settle()
}

// begin takes documents up for settleAfter. It returns false when the process
// ends.
func (w *writer) begin() bool {
	settled := w.Clock.NewTimer(settleAfter)
	defer settled.Stop()
	for {
		select {
		case u := <-w.inbox:
			w.newest, w.pending = &u, true
		case <-settled.C():
			return true
		case <-w.quit:
			w.drain()
			return false
		}
	}
}

// drain takes up what is there at the end.
func (w *writer) drain() {
	select {
	case u := <-w.inbox:
		w.newest, w.pending = &u, true
	default:
	}
}

// await waits until there is something to do: a document to write, or to write
// again. It returns false when the process ends.
func (w *writer) await() bool {
	var due <-chan time.Time
	if w.newest != nil {
		wait := lookAfter
		if w.pending {
			wait = retryAfter
		}
		timer := w.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case u := <-w.inbox:
		w.newest, w.pending = &u, true
	case <-due:
		w.pending = w.pending || w.isLost()
	case <-w.quit:
		w.drain()
		return false
	}
	return true
}

// settle makes one attempt at what is to be written, unless it is not in force any
// more.
func (w *writer) settle() {
	switch {
	case !w.pending:
	case !w.InForce(w.newest.Document):
		w.pending = false
	default:
		w.forget()
		w.pending = !w.write(*w.newest)
	}
}

// isLost reports whether a file that was written is gone.
func (w *writer) isLost() bool {
	_, err := os.Lstat(w.path())
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	w.written = ""
	return true
}

// write puts a document on disk unless it is there.
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
	w.tell(err)
	return err == nil
}

// tell notes how writing went, if it went otherwise before.
func (w *writer) tell(err error) {
	text := ""
	if err != nil {
		err = w.notKept(err)
		text = err.Error()
	}
	if text != w.told {
		w.told = text
		w.Note(err)
	}
}

// replace makes the file the one of a document: the old one or the new one,
// never a part, whenever the process or the machine ends.
func (w *writer) replace(u source.Update) (err error) {
	content, err := w.encode(u)
	if err != nil {
		return err
	}
	f, err := w.newFile()
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
