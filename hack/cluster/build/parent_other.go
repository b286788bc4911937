//go:build !linux

package build

import (
	"os/exec"
	"syscall"
)

// endWithParent gives the command a process group of its own, so that its children can be signalled with it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
