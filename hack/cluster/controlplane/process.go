package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// DeathError says that a component ended although nobody asked it to.
type DeathError struct {
	Component Component
	State     string // how, as the operating system says it: "exit status 1", "signal: killed"
	Log       string // its last lines
}

func (e *DeathError) Error() string {
	return fmt.Sprintf("%s ended by itself (%s); the last lines of its log:\n%s", e.Component, e.State, e.Log)
}

// process is one run of a component.
type process struct {
	cmd   *exec.Cmd
	log   string
	asked atomic.Bool   // we asked it to end
	ended chan struct{} // closed when it has ended
}

// spawner starts processes from one thread that lives as long as the spawner: the kernel ends a child when the thread
// that started it ends (PR_SET_PDEATHSIG), and the Go runtime may end any thread but one that is held like this. To
// close the spawner is no way to end the children: a process's first thread stays when its goroutine ends.
type spawner struct {
	requests chan func()
	closed   chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), closed: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer close(s.closed)
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// spawn starts the binary in the folder, its output appended to the log.
func (s *spawner) spawn(binary string, args []string, dir, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", binary, err)
	}
	defer output.Close() // the child has its own
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.SysProcAttr = childAttributes()
	p := &process{cmd: cmd, log: log, ended: make(chan struct{})}
	started := make(chan error)
	s.requests <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return p, nil
}

// close ends the spawner; whatever it started must have ended.
func (s *spawner) close() {
	close(s.requests)
	<-s.closed
}

// wait reaps the process; it is called once.
func (p *process) wait() {
	_ = p.cmd.Wait() // ProcessState says it all
	close(p.ended)
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) death(c Component) *DeathError {
	return &DeathError{Component: c, State: p.cmd.ProcessState.String(), Log: tail(p.log, 20)}
}

// stop asks the process to end and kills it if it does not within the time; killed reports that.
func (p *process) stop(ctx context.Context, patience time.Duration) (killed bool) {
	p.asked.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return false
	case <-timer.C:
	case <-ctx.Done():
	}
	p.kill()
	return true
}

// kill ends the process at once, as a crash would.
func (p *process) kill() {
	p.asked.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.ended
}

// tail returns the last lines of a log; a log that cannot be read says why.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
