package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
)

func TestAChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	clustertest.NoLeaks(t)
	dir := t.TempDir()
	s := newSpawner()
	type asked struct {
		thread int
		child  *process
	}
	answers := make(chan asked)
	for range 2 { // the process's first thread never ends, so at least one of two does
		go func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			p, err := s.spawn("/bin/sleep", []string{"60"}, dir, filepath.Join(dir, "log"))
			if err != nil {
				t.Error(err)
			}
			answers <- asked{syscall.Gettid(), p}
		}()
	}
	var children []*process
	for range 2 {
		a := <-answers
		go a.child.wait()
		children = append(children, a.child)
		clustertest.Eventually(t, 10*time.Second, "the end of the thread", func() error {
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", a.thread)); err == nil && a.thread != os.Getpid() {
				return errors.New("still there")
			}
			return nil
		})
	}
	for _, child := range children {
		select {
		case <-child.ended:
			t.Errorf("ended with the thread: %s", child.cmd.ProcessState)
		case <-time.After(100 * time.Millisecond):
		}
		child.kill()
	}
	s.close()
}
