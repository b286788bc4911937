package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock takes the folder for this process and calls waiting once if it has to wait. The kernel drops the lock when
// the process ends, however it ends.
func lock(ctx context.Context, folder string, waiting func()) (unlock func(), err error) {
	path := filepath.Join(folder, ".lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the binaries: %w; name another one with --bin", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if first {
			waiting()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		}
	}
}
