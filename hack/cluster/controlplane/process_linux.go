package controlplane

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the children, so that they are stopped in order, and have the kernel
// kill them when we are killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
