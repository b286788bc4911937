package source

import (
	"context"
	"os"
	"runtime"
	"syscall"
)

// unprivileged runs a source in a thread that may read no more than any user,
// also where the tests run as root.
type unprivileged struct{ Source }

func (s unprivileged) Run(ctx context.Context, sink func(Update)) error {
	if os.Geteuid() == 0 {
		// Linux keeps the user for file access per thread, and takes the
		// right to override permissions away with it. The thread ends with
		// this goroutine, since it stays locked.
		runtime.LockOSThread()
		const nobody = 65534
		if err := syscall.Setfsuid(nobody); err != nil {
			return err
		}
	}
	return s.Source.Run(ctx, sink)
}
