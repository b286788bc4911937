package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folderPrefix = "timeout-operator-demo-"
	lockName     = "lock"
)

// folder is a temporary one that is deleted at the end, or by the next demo
// where this one is killed: nobody holds its lock then.
type folder struct {
	path string
	lock *os.File
}

// makeFolder deletes what killed demos left and makes a new folder.
func makeFolder() (*folder, error) {
	sweep()
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	lock, err := tryLock(path, os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the temporary folder: %w", err), os.RemoveAll(path))
	}
	return &folder{path, lock}, nil
}

// delete is best called when no process uses the folder any more.
func (f *folder) delete() error {
	defer f.lock.Close()
	return os.RemoveAll(f.path)
}

// sweep is a courtesy: what it cannot delete stays. A folder without a lock is
// left alone, since its owner may be about to lock it.
func sweep() {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		if lock, err := tryLock(path, 0); err == nil {
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}

func tryLock(path string, create int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
