package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	temporaryPrefix = "timeout-operator-cluster-"
	startingPrefix  = "starting-" + temporaryPrefix
	lockName        = "lock"
)

// state is a folder that this process alone uses, for as long as it holds the lock in it.
type state struct {
	files
	temporary bool
	lock      *os.File
}

// claimState takes the folder, or a new temporary one when dir is empty.
func claimState(dir string) (*state, error) {
	if dir == "" {
		return temporaryState()
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w; name another one with --dir", err)
	}
	lock, err := tryLock(dir, os.O_CREATE)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("the state folder %s is used by another control plane: stop that one, or name another folder with --dir", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state folder %s: %w", dir, err)
	}
	return &state{files: files{dir}, lock: lock}, nil
}

// temporaryState makes a folder and takes it before it has the name by which sweep would find it.
func temporaryState() (_ *state, err error) {
	sweep()
	unnamed, err := os.MkdirTemp("", startingPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a temporary state folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a temporary state folder: %w", err), os.RemoveAll(unnamed))
		}
	}()
	if err := os.Mkdir(filepath.Join(unnamed, "logs"), 0o700); err != nil {
		return nil, err
	}
	lock, err := tryLock(unnamed, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(filepath.Dir(unnamed), temporaryPrefix+strings.TrimPrefix(filepath.Base(unnamed), startingPrefix))
	if err := os.Rename(unnamed, dir); err != nil {
		lock.Close()
		return nil, err
	}
	return &state{files: files{dir}, temporary: true, lock: lock}, nil
}

// sweep deletes the temporary folders of processes that were killed: ours, and no longer locked.
func sweep() {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		if lock, err := tryLock(dir, 0); err == nil { // 0: no lock file appears in a folder that its owner is deleting
			_ = os.RemoveAll(dir) // best effort: the next start tries again
			lock.Close()
		}
	}
}

func tryLock(dir string, create int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// release gives the folder back, and deletes it if it is a temporary one.
func (s *state) release() error {
	defer s.lock.Close()
	if !s.temporary {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("delete the state folder: %w", err)
	}
	return nil
}
