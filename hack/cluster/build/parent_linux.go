package build

import (
	"os/exec"
	"syscall"
)

// endWithParent gives the command a process group of its own, so that its children can be signalled with it, and lets
// the kernel end it when we are killed. The kernel looks at the thread that started it, not at the process; the Go
// runtime ends a thread only when a goroutine locked to it returns, which none here does.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
