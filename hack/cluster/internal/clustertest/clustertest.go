// Package clustertest holds what the tests of this module share: the binaries, waiting for something, and the checks
// that nothing is left running.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
)

var binaries = sync.OnceValues(func() (string, error) {
	result, err := build.Ensure(context.Background(), build.Options{Log: os.Stderr, Assets: os.Getenv("KUBEBUILDER_ASSETS")},
		build.Etcd, build.APIServer, build.ControllerManager)
	return result.Folder, err
})

// Binaries returns the folder of the control plane's binaries, building them if they are missing or out of date.
func Binaries(t testing.TB) string {
	t.Helper()
	folder, err := binaries()
	if err != nil {
		t.Fatalf("the control plane's binaries: %v", err)
	}
	return folder
}

// Eventually waits until try returns nil and fails the test with its last error otherwise.
func Eventually(t testing.TB, within time.Duration, what string, try func() error) {
	t.Helper()
	if err := poll(within, try); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

func poll(within time.Duration, try func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(within)
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}

// NoLeaks fails the test if, at its end, goroutines of this module or of client-go go on running.
func NoLeaks(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		err := poll(10*time.Second, func() error {
			if left := goroutines(); len(left) > 0 {
				return fmt.Errorf("%d goroutines are left, the first:\n%s", len(left), left[0])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func goroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		mine := strings.Contains(stack, "timeout-operator/hack/cluster/") || strings.Contains(stack, "k8s.io/client-go/tools/cache")
		if mine && !strings.Contains(stack, "testing.") {
			found = append(found, stack)
		}
	}
	return found
}

// ProcessesIn returns the ids of the processes whose working directory is the folder, which is how those of a control
// plane can be told from others.
func ProcessesIn(folder string) []int {
	var found []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		cwd, err := os.Readlink(link) // a process may end meanwhile
		if err != nil || strings.TrimSuffix(cwd, " (deleted)") != folder {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// NoProcessIn waits until no process has the folder as its working directory.
func NoProcessIn(t testing.TB, folder string) {
	t.Helper()
	Eventually(t, 10*time.Second, "no process left in "+folder, func() error {
		if left := ProcessesIn(folder); len(left) > 0 {
			return fmt.Errorf("still running: %v", left)
		}
		return nil
	})
}
