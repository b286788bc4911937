package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second // until a child says that it is ready
	stopTimeout  = 20 * time.Second // until a child that was told to end has ended
)

// children are the long-running processes of the demo. One that ends by itself
// ends the demo.
type children struct {
	logs string // folder of their logs
	fail context.CancelCauseFunc
	list []*child
}

// child is one of them.
type child struct {
	name       string
	cmd        *exec.Cmd
	transcript *transcript
	stdin      io.Closer
	done       chan struct{} // closed when it has ended
	stopping   atomic.Bool
}

// start runs a command in the background. It gets a process group of its own,
// so that a terminal's Ctrl-C does not reach it before its turn, and the kernel
// ends it when the demo is killed. Its stdin is a pipe that stays open.
func (c *children) start(name string, cmd *exec.Cmd) (*child, error) {
	log, err := os.Create(filepath.Join(c.logs, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("keep the log of %s: %w", name, err)
	}
	p := &child{name: name, cmd: cmd, transcript: newTranscript(log), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.transcript
	}
	cmd.Stderr = p.transcript
	cmd.SysProcAttr = childAttributes(syscall.SIGTERM)
	cmd.WaitDelay = 2 * time.Second
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	c.list = append(c.list, p)
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		_ = log.Close()
		if !p.stopping.Load() {
			c.fail(fmt.Errorf("%s ended by itself (%s)%s", name, ending(err), p.transcript.tail()))
		}
	}()
	return p, nil
}

func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// await returns the first line of the child's output that is wanted.
func (p *child) await(ctx context.Context, what string, want func(line string) bool) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s: no sign of %s within %s%s", p.name, what, startTimeout, p.transcript.tail()))
	defer cancel()
	for from := 0; ; {
		lines, changed := p.transcript.since(from)
		for _, line := range lines {
			if want(line) {
				return line, nil
			}
		}
		from += len(lines)
		select {
		case <-changed:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// stop ends all children, the youngest first, and waits until they have ended.
func (c *children) stop() error {
	var errs []error
	for _, p := range c.list {
		p.stopping.Store(true)
	}
	for i := len(c.list) - 1; i >= 0; i-- {
		p := c.list[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.stdin.Close()
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			errs = append(errs, fmt.Errorf("%s did not end within %s and was killed", p.name, stopTimeout))
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
	}
	return errors.Join(errs...)
}

// transcript keeps the lines that a process prints, in memory and in a file. It
// is safe for concurrent use.
type transcript struct {
	file io.Writer

	mu      sync.Mutex
	lines   []string
	partial string
	changed chan struct{} // closed and replaced when lines are added
}

func newTranscript(file io.Writer) *transcript {
	return &transcript{file: file, changed: make(chan struct{})}
}

// Write implements io.Writer. What the file cannot take is still in memory.
func (t *transcript) Write(p []byte) (int, error) {
	_, _ = t.file.Write(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(t.partial+string(p), "\n")
	t.partial = lines[len(lines)-1]
	if lines = lines[:len(lines)-1]; len(lines) > 0 {
		t.lines = append(t.lines, lines...)
		close(t.changed)
		t.changed = make(chan struct{})
	}
	return len(p), nil
}

// since returns the lines from an index on, and a channel that is closed when
// there are more.
func (t *transcript) since(from int) ([]string, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines[from:]...), t.changed
}

// count returns how many lines there are.
func (t *transcript) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}

// tail returns the end of the transcript, to be put behind an error.
func (t *transcript) tail() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	last := t.lines[max(0, len(t.lines)-10):]
	return "; the end of its log:\n  " + strings.Join(last, "\n  ")
}
