package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// open makes the directory, for this user alone, and finds out whether a file can
// be made in it, so that what is wrong is told when a process starts and not
// when a policy comes.
func (c *Cache) open() error {
	f, err := c.newFile()
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// newFile makes a temporary file, and the directory if it is not there, or not
// any more.
func (c *Cache) newFile() (tempFile, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	return c.create(c.Dir, "."+c.name()+"-*.tmp")
}

// notKept says that nothing can be kept in the directory, and what would mend it.
func (c *Cache) notKept(err error) error {
	err = fmt.Errorf("the policy is not kept in %s: %w", c.Dir, cause(err))
	if mend := mendOf(err); mend != "" {
		err = fmt.Errorf("%w: %s", err, mend)
	}
	return err
}

func mendOf(err error) string {
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return "a file is in the place of the directory, or of one above it: take it away, or name another directory"
	case errors.Is(err, syscall.EROFS):
		return "mount a volume there that can be written, such as an emptyDir"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("let user %d write there, in a pod by a volume and securityContext.fsGroup", os.Geteuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room, or raise the limit of the volume"
	default:
		return ""
	}
}

// ofDirectory reports whether an error of opening a file is one of its directory,
// which whoever writes there finds and tells.
func ofDirectory(path string, err error) bool {
	if errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	_, statErr := os.Lstat(path)
	return errors.Is(err, fs.ErrPermission) && errors.Is(statErr, fs.ErrPermission)
}
