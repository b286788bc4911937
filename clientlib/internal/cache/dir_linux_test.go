package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs in a thread that may do no more than any user, also where the
// tests run as root.
func asNobody(t *testing.T, what func()) {
	t.Helper()
	failed := make(chan error)
	go func() {
		if os.Geteuid() == 0 {
			// Linux keeps the user for file access per thread; the thread ends with this
			// goroutine, since it stays locked.
			runtime.LockOSThread()
			if err := syscall.Setfsuid(65534); err != nil {
				failed <- err
				return
			}
		}
		what()
		failed <- nil
	}()
	must(t, <-failed)
}

// Whose fault it is that a file cannot be had: that of a directory is told by
// who writes there, once, and that of the file by who reads it.
func TestRightsThatAreMissing(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	closed := filepath.Join(dir, "closed")
	must(t, os.Mkdir(closed, 0o700))
	must(t, os.Chmod(closed, 0))
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	listed := filepath.Join(dir, "listed")
	must(t, os.Mkdir(listed, 0o755))
	ours := New(Options{Dir: listed, Client: "checkout"})
	must(t, os.WriteFile(ours.path(), nil, 0))
	must(t, os.Chmod(listed, 0o555))

	asNobody(t, func() {
		for _, c := range []struct {
			name, dir string
			read      error
		}{
			{"the directory may not be entered", closed, errNothingKept},
			{"the directory may not be made", filepath.Join(closed, "below"), errNothingKept},
			{"the file may not be read", listed, syscall.EACCES},
		} {
			k := New(Options{Dir: c.dir, Client: "checkout"})
			if _, err := k.read(); !errors.Is(err, c.read) {
				t.Errorf("%s: reading ends with %v, want %v", c.name, err, c.read)
			}
			err := k.open()
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: opening ends with %v", c.name, err)
				continue
			}
			if text := k.notKept(err).Error(); !strings.Contains(text, c.dir+": permission denied: let user ") || !strings.Contains(text, "fsGroup") {
				t.Errorf("%s: it is told as %q", c.name, text)
			}
		}
	})
}
