package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childAttributes: a process group of its own, and the signal that ends it from
// the kernel when this process is gone.
func childAttributes(end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
}

// adoptOrphans makes this process the parent of every descendant whose own
// parent ends, so that none can get out of sight. prctl(2),
// PR_SET_CHILD_SUBREAPER.
func adoptOrphans() error {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("become the parent of orphaned processes: %w", errno)
	}
	return nil
}

// leftovers waits up to patience for all descendants to end, kills those that
// do not, and returns them, as in "etcd (4711)". It must not run while a child
// is waited for elsewhere.
func leftovers(patience time.Duration, _ []*child) []string {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := descendants(os.Getpid())
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			names := make([]string, len(left))
			for i, p := range left {
				names[i] = fmt.Sprintf("%s (%d)", p.name, p.pid)
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			return names
		}
	}
}

type process struct {
	pid, parent int
	name        string
	ended       bool // but not yet waited for
}

// descendants returns the running descendants of a process, and takes note of
// the end of its ended children.
func descendants(root int) []process {
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	byParent := map[int][]process{}
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil {
			p := parseStat(string(text))
			byParent[p.parent] = append(byParent[p.parent], p)
		}
	}
	var running []process
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range byParent[queue[0]] {
			queue = append(queue, p.pid)
			switch {
			case !p.ended:
				running = append(running, p)
			case p.parent == root:
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
	return running
}

// parseStat reads /proc/PID/stat, see proc_pid_stat(5): the name is in
// parentheses and may hold anything.
func parseStat(text string) process {
	var p process
	left, right := strings.Index(text, "("), strings.LastIndex(text, ")")
	if left < 1 || right < left {
		return p
	}
	p.pid, _ = strconv.Atoi(text[:left-1])
	p.name = text[left+1 : right]
	if fields := strings.Fields(text[right+1:]); len(fields) > 1 {
		p.ended = fields[0] == "Z" || fields[0] == "X"
		p.parent, _ = strconv.Atoi(fields[1])
	}
	return p
}
