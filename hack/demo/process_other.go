//go:build !linux

package main

import (
	"fmt"
	"syscall"
	"time"
)

// childAttributes: a process group of its own.
func childAttributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adoptOrphans is for Linux only.
func adoptOrphans() error { return nil }

// leftovers waits up to patience for the children's process groups to be gone,
// kills those that are not, and returns them, as in "mounter (4711)".
func leftovers(patience time.Duration, children []*child) []string {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var left []string
		late := time.Now().After(end)
		for _, p := range children {
			if group := p.cmd.Process.Pid; syscall.Kill(-group, 0) == nil {
				left = append(left, fmt.Sprintf("%s (%d)", p.name, group))
				if late {
					_ = syscall.Kill(-group, syscall.SIGKILL)
				}
			}
		}
		if len(left) == 0 || late {
			return left
		}
	}
}
