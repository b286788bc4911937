package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
)

func TestUpRunsUntilInterruptedAndLeavesNothing(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubeconfig")
	c := command(t, "up", "--kubeconfig", config)
	c.begin()
	if got := c.line(); got != config {
		t.Errorf("first line %q, want the kubeconfig %s", got, config)
	}
	c.expect("ready")
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig %v, %v; want mode 0600", info, err)
	}
	if got := len(clustertest.ProcessesIn(c.state())); got != 3 {
		t.Errorf("%d components run, want 3", got)
	}
	state := c.state()
	c.signal(syscall.SIGINT)
	c.end(exitOK)
	clustertest.NoProcessIn(t, state)
	if left, _ := os.ReadDir(c.temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig of a control plane that is gone is still there (%v)", err)
	}
}

func TestUpKilledLeavesNoChild(t *testing.T) {
	c := command(t, "up")
	c.begin()
	state := filepath.Dir(c.line())
	c.expect("ready")
	if got := len(clustertest.ProcessesIn(state)); got != 3 {
		t.Fatalf("%d components run, want 3", got)
	}
	c.signal(syscall.SIGKILL)
	c.end(-1)
	clustertest.NoProcessIn(t, state)
}

func TestUpInterruptedWhileItStartsLeavesNothing(t *testing.T) {
	c := command(t, "up", "--without-controller-manager")
	c.begin()
	clustertest.Eventually(t, 30*time.Second, "etcd is up", func() error {
		if c.said("etcd: ready") {
			return nil
		}
		return errors.New(c.errors.String())
	})
	c.signal(syscall.SIGTERM)
	c.end(exitInterrupted)
	if !c.said("kube-apiserver was not ready yet") {
		t.Errorf("stderr %q does not say what was under way", c.errors)
	}
	if left, _ := os.ReadDir(c.temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUpEndsWhenItsStdinCloses(t *testing.T) {
	c := command(t, "up", "--without-controller-manager", "--exit-with-parent")
	stdin := c.pipe()
	c.begin()
	state := filepath.Dir(c.line())
	c.expect("ready")
	fmt.Fprintln(stdin, "kill etcd") // no orders are taken without --control
	stdin.Close()
	c.end(exitOK)
	clustertest.NoProcessIn(t, state)
}

func TestUpEndsWithItsParent(t *testing.T) {
	c := command(t, "up", "--without-controller-manager", "--exit-with-parent")
	// A shell between us and the command, which is killed and cannot pass anything on.
	c.cmd.Path = "/bin/sh"
	c.cmd.Args = append([]string{"sh", "-c", `"$0" "$@" & wait`, os.Args[0]}, c.cmd.Args[1:]...)
	c.begin()
	state := filepath.Dir(c.line())
	c.expect("ready")
	c.signal(syscall.SIGKILL)
	if rest, err := io.ReadAll(c.out); err != nil || len(rest) > 0 { // ends when the command has
		t.Errorf("stdout went on with %q, %v", rest, err)
	}
	c.end(-1)
	clustertest.NoProcessIn(t, state)
	if left, _ := os.ReadDir(c.temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUpOnATakenPortSaysSoInOneLine(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	c := command(t, "up", "--port", fmt.Sprint(port))
	c.begin()
	c.end(exitFailed)
	want := fmt.Sprintf("cluster up: port %d on 127.0.0.1 is taken: stop what uses it, or choose another one with --port (0 takes a free one)\n", port)
	if got := c.errors.String(); got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if left, _ := os.ReadDir(c.temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUpFailsWhenAComponentDies(t *testing.T) {
	c := command(t, "up", "--without-controller-manager")
	c.begin()
	state := filepath.Dir(c.line())
	c.expect("ready")
	for _, pid := range clustertest.ProcessesIn(state) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "etcd" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.end(exitFailed)
	if !c.said("etcd ended by itself (signal: killed)") {
		t.Errorf("stderr %q does not say who died", c.errors)
	}
	clustertest.NoProcessIn(t, state)
}

func TestUpTakesOrders(t *testing.T) {
	c := command(t, "up", "--without-controller-manager", "--control")
	stdin := c.pipe()
	c.begin()
	c.line()
	c.expect("ready")
	for _, tt := range []struct{ order, answer string }{
		{"kill kube-apiserver", "ok kill kube-apiserver"},
		{"stop kube-apiserver", "ok stop kube-apiserver"},
		{"start kube-apiserver", "ok start kube-apiserver"},
		{"start kube-apiserver", "failed start kube-apiserver: kube-apiserver runs already"},
		{"restart kube-apiserver", "ok restart kube-apiserver"},
		{"kill kubelet", `failed kill kubelet: there is no component "kubelet", there are ["etcd" "kube-apiserver"]`},
		{"pause etcd", `failed pause etcd: there is no order "pause", there are kill, stop, start and restart`},
	} {
		fmt.Fprintln(stdin, tt.order)
		c.expect(tt.answer)
	}
	stdin.Close()
	c.end(exitOK)
}

// running is this test binary started as the command, with a folder of its own for temporary files.
type running struct {
	t         *testing.T
	cmd       *exec.Cmd
	temporary string
	out       *bufio.Reader
	errors    *lockedBuffer
}

func command(t *testing.T, args ...string) *running {
	t.Helper()
	clustertest.Binaries(t)
	c := &running{t: t, cmd: exec.Command(os.Args[0], args...), temporary: t.TempDir(), errors: &lockedBuffer{}}
	c.cmd.Env = append(os.Environ(), "RUN_AS_CLUSTER=1", "TMPDIR="+c.temporary)
	c.cmd.Stderr = c.errors
	return c
}

// pipe connects the command's stdin to the test.
func (c *running) pipe() *os.File {
	c.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stdin = r
	c.t.Cleanup(func() { r.Close(); w.Close() })
	return w
}

func (c *running) begin() {
	c.t.Helper()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if in, ok := c.cmd.Stdin.(*os.File); ok {
		in.Close() // the command has its own, and must be the only one to have
	}
	watchdog := time.AfterFunc(2*time.Minute, func() { c.cmd.Process.Kill() })
	c.t.Cleanup(func() {
		watchdog.Stop()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
}

// line is the next line of stdout.
func (c *running) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("stdout ended: %v; stderr: %s", err, c.errors)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *running) expect(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("printed %q, want %q; stderr: %s", got, want, c.errors)
	}
}

// state is the state folder, the only thing among the temporary files.
func (c *running) state() string {
	c.t.Helper()
	found, err := os.ReadDir(c.temporary)
	if err != nil || len(found) != 1 {
		c.t.Fatalf("temporary files %v, %v; want the state folder", found, err)
	}
	return filepath.Join(c.temporary, found[0].Name())
}

func (c *running) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the command and checks its exit status; -1 is death by a signal.
func (c *running) end(want int) {
	c.t.Helper()
	_ = c.cmd.Wait() // ProcessState says it all
	if got := c.cmd.ProcessState.ExitCode(); got != want {
		c.t.Fatalf("ended with %s, want exit status %d; stderr: %s", c.cmd.ProcessState, want, c.errors)
	}
}

func (c *running) said(text string) bool { return strings.Contains(c.errors.String(), text) }

// lockedBuffer may be read while it is written to.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
