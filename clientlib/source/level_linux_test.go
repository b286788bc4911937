package source

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// After a thousand updates, directories deleted and made anew among them,
// nothing has piled up.
func TestDescriptorsAndGoroutinesStayLevel(t *testing.T) {
	root := tempDir(t)
	at := filepath.Join(root, "client")
	run := newRun(t, root)
	docs := [][]byte{docFor(t, "a"), docFor(t, "b"), []byte("{"), docFor(t, "c")}
	update := func(i int) {
		if i%50 == 0 {
			must(t, os.RemoveAll(at))
			run.look()
		}
		newVolume(t, at).policy(docs[i%len(docs)])
		run.look()
	}
	for i := range 10 {
		update(i)
	}
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	for i := range 1000 {
		update(i)
	}
	if now := descriptors(t); now != fds {
		t.Errorf("%d descriptors, %d before the updates", now, fds)
	}
	if now := runtime.NumGoroutine(); now != goroutines {
		t.Errorf("%d goroutines, %d before the updates", now, goroutines)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
