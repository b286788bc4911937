package reload

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

const limitedEnv = "RELOAD_TEST_LIMIT"

// The inotify limits of the kernel, really reached: in a user namespace of its
// own a process may have no instance, or no watch, and the source finds changes
// all the same, by looking. Where a machine lets nobody make user namespaces,
// the process takes all instances that its user may have.
//
// Case R21.
func TestInotifyLimitReached(t *testing.T) {
	for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
		t.Run(limit, func(t *testing.T) {
			out, err := runLimited(limit, true)
			if err != nil && strings.Contains(out, cannotLimit) {
				out, err = runLimited("all instances", false)
			}
			if err != nil || !strings.Contains(out, "changes are found without events") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

const cannotLimit = "cannot limit"

// runLimited runs TestSourceUnderALimit in a process of its own.
func runLimited(limit string, namespace bool) (string, error) {
	child := exec.Command(os.Args[0], "-test.run", "^TestSourceUnderALimit$", "-test.v")
	child.Env = append(os.Environ(), limitedEnv+"="+limit)
	if namespace {
		child.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := child.CombinedOutput()
	if err != nil && child.ProcessState == nil {
		return cannotLimit, err // it did not even start
	}
	return string(out), err
}

// reachLimit makes sure that this process gets no more of the resource.
func reachLimit(t *testing.T, limit string) {
	t.Helper()
	if limit != "all instances" {
		if err := os.WriteFile("/proc/sys/user/"+limit, []byte("0"), 0o644); err != nil {
			t.Fatalf("%s %s: %v", cannotLimit, limit, err)
		}
		return
	}
	for {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
		if err != nil {
			return
		}
		t.Cleanup(func() { syscall.Close(fd) })
	}
}

// TestSourceUnderALimit is the process that TestInotifyLimitReached starts; by
// itself it runs without a limit.
//
// Case R21.
func TestSourceUnderALimit(t *testing.T) {
	want := source.DeliveryMount
	if limit := os.Getenv(limitedEnv); limit != "" {
		reachLimit(t, limit)
		want = source.DeliveryPoll
	}
	root := t.TempDir()
	v := newVolume(t, root)
	f := follow(t, source.Dir(root, source.WithClock(fast{clock.System()})))
	for n := range 3 {
		data, revision := newDocument(t, "checkout", n)
		v.write(documentKey(data))
		f.until(func(u *source.Update) bool { return u.Err == nil && u.Document.Revision == revision })
		if u := f.current.Load(); u.Delivery != want {
			t.Errorf("delivery is %s, want %s", u.Delivery, want)
		}
	}
	if want == source.DeliveryPoll {
		fmt.Println("changes are found without events")
	}
}

// fast is a clock on which a minute takes a second.
type fast struct{ clock.Clock }

func (f fast) NewTimer(d time.Duration) clock.Timer { return f.Clock.NewTimer(d / 60) }
