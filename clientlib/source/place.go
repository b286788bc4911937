package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// dataLink is the link that the kubelet's AtomicWriter swaps: it leads to a
// directory with all files of one version of the volume.
const dataLink = "..data"

// maxRestarts bounds how often a read starts over because the volume changed
// under it.
const maxRestarts = 10

// place is where a document can be: a key in a directory.
type place struct {
	dir string
	key string
}

func (p place) path() string { return filepath.Join(p.dir, p.key) }

// read returns the content, at most one byte more than a document may have, and
// whether the directory is a volume with atomic updates.
//
// In such a volume it resolves "..data" once and reads below the result, so
// that all it sees belongs to one version. A version that is deleted while it
// is read makes it start over with the next one.
func (p place) read() (data []byte, atomic bool, fault *Error) {
	for range maxRestarts {
		version, err := os.Readlink(filepath.Join(p.dir, dataLink))
		if err != nil {
			// Not a volume, or none now. Whatever keeps the link from being
			// read keeps the file from being read too, and is told there.
			data, err := readBounded(p.path())
			return data, false, p.fault(err)
		}
		file := filepath.Join(p.dir, version, p.key)
		if filepath.IsAbs(version) {
			file = filepath.Join(version, p.key)
		}
		data, err := readBounded(file)
		if isAbsent(err) && p.moved(version) {
			continue
		}
		return data, true, p.fault(err)
	}
	return nil, true, &Error{Path: p.path(), Fault: FaultIO, Err: errors.New("the volume changed during each of many reads")}
}

// moved reports whether "..data" leads elsewhere by now.
func (p place) moved(version string) bool {
	now, err := os.Readlink(filepath.Join(p.dir, dataLink))
	return err == nil && now != version
}

// readBounded reads up to document.MaxBytes+1 bytes of a regular file. Opening
// never blocks, whatever the file is.
func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data := make([]byte, min(info.Size(), document.MaxBytes)+1)
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return data[:n], nil
	}
	if err != nil {
		return nil, err
	}
	// The file grew since Stat.
	rest, err := io.ReadAll(io.LimitReader(f, int64(document.MaxBytes+1-n)))
	return append(data, rest...), err
}

var errNotRegular = errors.New("it is not a regular file")

// fault classes an error of reading; nil stays nil.
func (p place) fault(err error) *Error {
	if err == nil {
		return nil
	}
	fault := FaultIO
	switch {
	case isAbsent(err) && p.dangling():
		fault = FaultDanglingLink
	case isAbsent(err):
		fault = FaultMissing
	case errors.Is(err, syscall.ELOOP):
		fault = FaultSymlinkLoop
	case errors.Is(err, fs.ErrPermission):
		fault = FaultPermission
	case errors.Is(err, errNotRegular):
		fault = FaultNotRegular
	}
	return &Error{Path: p.path(), Fault: fault, Err: err}
}

// dangling reports whether "..data" or the file is there, but leads nowhere.
func (p place) dangling() bool {
	for _, link := range []string{filepath.Join(p.dir, dataLink), p.path()} {
		info, err := os.Lstat(link)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if _, err := os.Stat(link); isAbsent(err) {
			return true
		}
	}
	return false
}
