package cache

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The directory is made when the process starts, document or not, and again when
// somebody took it away.
func TestTheDirectoryIsMade(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "var")
	dir := filepath.Join(parent, "cache")
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, dir, "checkout", "")
		if u := p.hears(nothingThere); u.Document != nil {
			t.Errorf("it said %+v", u)
		}
		for _, made := range []string{parent, dir} {
			info, err := os.Stat(made)
			must(t, err)
			if info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("%s has mode %s", made, info.Mode())
			}
		}
		must(t, os.RemoveAll(parent))
		p.hears(has(t, someDocument))
		fileIn(t, dir)

		// What nobody changes is deleted by some programs.
		must(t, os.RemoveAll(parent))
		<-time.After(lookAfter + time.Second)
		synctest.Wait()
		fileIn(t, dir)
		p.stop()
		if len(p.noted()) > 0 {
			t.Errorf("it noted %q", p.noted())
		}
		if u, notes := after(t, dir, "checkout", ""); u.Document == nil || len(notes) > 0 {
			t.Errorf("the next process said %+v, noted %q", u, notes)
		}
	})
}

// A file that another process wrote meanwhile is left alone.
func TestTheFileOfAnotherProcessStays(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, dir, "checkout", "")
		p.hears(has(t, `{"schema":1,"client":"first"}`))
		keep(t, dir, "checkout", "", `{"schema":1,"client":"second"}`)
		<-time.After(3 * lookAfter)
		p.stop()
		if u, _ := after(t, dir, "checkout", ""); u.Document == nil || u.Document.Client != "second" {
			t.Errorf("kept is %+v", u.Document)
		}
	})
}

// A directory that is there is used as it is.
func TestADirectoryThatIsThereKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o775))
	synctest.Test(t, func(t *testing.T) { keep(t, dir, "checkout", "", someDocument) })
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o775 {
		t.Errorf("the directory has mode %s", info.Mode())
	}
}

// The directory stays the one it was when the process changes its own.
func TestARelativeDirectoryIsOneForGood(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	t.Chdir(first)
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, "kept", "checkout", "")
		must(t, os.Chdir(second))
		p.hears(has(t, someDocument))
		p.stop()
	})
	fileIn(t, filepath.Join(first, "kept"))
	if entries, err := os.ReadDir(second); err != nil || len(entries) > 0 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
}
