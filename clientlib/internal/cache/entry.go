package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/internal/lineage"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// format is the version of the file: one line of JSON, the header, then the
// text of the document as the source had it.
const format = 1

// maxHeader is more than a header can have.
const maxHeader = 4 << 10

// header says whose document follows, and what it has to be.
type header struct {
	Format    int    `json:"format"`
	Client    string `json:"client"`
	Namespace string `json:"namespace,omitempty"`
	// Revision of the document. The text of one that was written by hand does
	// not have it, and would not show damage.
	Revision string    `json:"revision"`
	Kept     time.Time `json:"kept"`
}

// entry is a file that was found good.
type entry struct {
	header
	document *document.Document
	raw      []byte
}

// outdoes reports whether what was kept stays in force rather than a document that
// is in the place of another one: the generations of the policies say that it is
// newer, or it is the client's own, the other one is for all of the namespace, and
// there is an error of what was asked before that. A client's own tombstone leaves
// the say to the namespace's document, and is no error.
func (e *entry) outdoes(u source.Update) bool {
	own := e.document.Client != "" && !e.document.Tombstone
	return own && u.Document.Client == "" && u.Err != nil || lineage.Compare(e.document, u.Document) > 0
}

// errNothingKept says that there is no file, which is no trouble, or none that the
// writer would not tell of.
var errNothingKept = errors.New("nothing was kept")

// path is the file of this client: a name that people know it by, and a digest
// that tells apart what looks the same.
func (c *Cache) path() string { return filepath.Join(c.Dir, c.name()+".json") }

func (c *Cache) name() string {
	const readable = 40
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, c.Client)
	digest := sha256.Sum256([]byte(c.Namespace + "\x00" + c.Client))
	return "timeouts-" + safe[:min(len(safe), readable)] + "-" + hex.EncodeToString(digest[:8])
}

// read returns what was kept, if it can be used.
func (c *Cache) read() (*entry, error) {
	data, err := readBounded(c.path(), maxHeader+document.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) || ofDirectory(c.path(), err) {
		return nil, errNothingKept
	}
	if err == nil {
		var e *entry
		if e, err = c.decode(data); err == nil {
			return e, nil
		}
	}
	return nil, fmt.Errorf("the policy kept in %s is not used: %w", c.path(), cause(err))
}

// decode verifies the content of a file.
func (c *Cache) decode(data []byte) (*entry, error) {
	line, raw, ok := bytes.Cut(data, []byte("\n"))
	e := &entry{raw: raw}
	if err := json.Unmarshal(line, &e.header); err != nil || !ok {
		return nil, errors.New("it does not begin with a header: it is damaged, or of another program")
	}
	switch {
	case e.Format != format:
		return nil, fmt.Errorf("its format is %d, this version reads %d only", e.Format, format)
	case e.Client != c.Client || e.Namespace != c.Namespace:
		return nil, fmt.Errorf("it was kept for client %q of namespace %q", e.Client, e.Namespace)
	}
	doc, err := document.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if doc.Revision != e.Revision {
		return nil, fmt.Errorf("it is damaged: its revision is %s, not %s", doc.Revision, e.Revision)
	}
	e.document = doc
	return e, nil
}

// encode returns the content of the file for an update.
func (c *Cache) encode(u source.Update) ([]byte, error) {
	line, err := json.Marshal(header{format, c.Client, c.Namespace, u.Document.Revision, c.Clock.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	return append(append(line, '\n'), u.Raw...), nil
}

// readBounded reads a regular file of at most limit bytes. Opening never blocks,
// whatever the file is.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errors.New("it is not a regular file of a possible size")
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// cause takes the path off an error of the operating system: that of a temporary
// file is another one each time.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	default:
		return err
	}
}
