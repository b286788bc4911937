//go:build !linux

package controlplane

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the children, so that they are stopped in order. Children of a process
// that was killed stay: only Linux can prevent that.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
