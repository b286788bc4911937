package cache

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fed is a source that says what the test feeds it.
type fed chan source.Update

func (f fed) Run(ctx context.Context, sink func(source.Update)) error {
	for {
		select {
		case u := <-f:
			sink(u)
		case <-ctx.Done():
			return nil
		}
	}
}

// process is one life of a client with a cache.
type process struct {
	t     *testing.T
	feed  fed
	last  source.Update
	notes []string
	stop  func()
	mu    sync.Mutex
	// refuses is a document that does not come into force, or not any more.
	refuses atomic.Pointer[document.Document]
	cache   *Cache
}

// startProcess begins a life, inside of a synctest bubble, that is settled already.
func startProcess(t *testing.T, dir, client, namespace string, adjust ...func(*Cache)) *process {
	p := startFresh(t, dir, client, namespace, adjust...)
	<-time.After(settleAfter)
	synctest.Wait()
	return p
}

// startFresh begins a life.
func startFresh(t *testing.T, dir, client, namespace string, adjust ...func(*Cache)) *process {
	p := &process{t: t, feed: make(fed)}
	c := New(Options{
		Source: p.feed, Dir: dir, Client: client, Namespace: namespace,
		InForce: func(doc *document.Document) bool { return p.refuses.Load() != doc },
		Note: func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			text := "well"
			if err != nil {
				text = err.Error()
			}
			p.notes = append(p.notes, text)
		},
	})
	p.cache = c
	for _, change := range adjust {
		change(c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx, func(u source.Update) { p.last = u }) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *process) hears(u source.Update) source.Update {
	p.feed <- u
	synctest.Wait()
	return p.last
}

func (p *process) noted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes
}

var nothingThere = source.Update{Err: errors.New("nothing is there"), Reason: source.ReasonNoDocument, Delivery: source.DeliveryMount}

func has(t *testing.T, text string) source.Update {
	t.Helper()
	doc, err := document.Parse([]byte(text))
	must(t, err)
	return source.Update{Document: doc, Raw: []byte(text), Delivery: source.DeliveryMount, Origin: "/etc/timeouts"}
}

// Of this text an unknown field is a part, and the revision is not.
const someDocument = `{"schema":1,"client":"checkout","future":1,"upstreams":[{"name":"orders","hosts":["orders"]}]}`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keep runs a process that has a document, then ends.
func keep(t *testing.T, dir, client, namespace, text string) {
	t.Helper()
	p := startProcess(t, dir, client, namespace)
	p.hears(has(t, text))
	p.stop()
	if len(p.noted()) > 0 {
		t.Fatalf("keeping failed: %v", p.noted())
	}
}

// after runs a process that finds nothing and returns what it says instead.
func after(t *testing.T, dir, client, namespace string) (source.Update, []string) {
	t.Helper()
	p := startProcess(t, dir, client, namespace)
	u := p.hears(nothingThere)
	p.stop()
	return u, p.noted()
}

// fileIn returns the one file of a directory.
func fileIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Fatalf("the directory has %v, want one file", entries)
	}
	return filepath.Join(dir, entries[0].Name())
}

func TestTheNextProcessHasWhatWasKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep(t, dir, "checkout", "shop", someDocument)
		info, err := os.Stat(fileIn(t, dir))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %s", info.Mode())
		}

		p := startProcess(t, dir, "checkout", "shop")
		want := has(t, someDocument)
		u := p.hears(nothingThere)
		if u.Document == nil || u.Document.Revision != want.Document.Revision || u.Reason != source.ReasonCached || u.Err == nil || u.Origin != fileIn(t, dir) || u.Delivery != source.DeliveryMount {
			t.Errorf("it said %+v", u)
		}
		if m := u.Message(); !strings.Contains(m, "nothing is there") || !strings.Contains(m, "kept on 2000-01-01T") {
			t.Errorf("the message is %q", m)
		}
		if !errors.Is(u.Err, nothingThere.Err) {
			t.Errorf("the error %v hides the source's", u.Err)
		}
		if u := p.hears(want); u.Document != want.Document || u.Err != nil || u.Reason != source.ReasonNone {
			t.Errorf("with a document of the source it said %+v", u)
		}
		// From now on the source has its own last good document, or says none on
		// purpose.
		if u := p.hears(nothingThere); u.Document != nil {
			t.Errorf("what was kept came back: %+v", u)
		}
		p.stop()
	})
}

// A document takes the place of what was kept once it has been in force for a
// while: a program may come to refuse it.
func TestADocumentHasToStandBeforeItIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep(t, dir, "checkout", "", someDocument)
		earlier := func(p *process, want string) {
			t.Helper()
			got := ""
			if doc, _ := p.cache.Earlier(); doc != nil {
				got = doc.Client
			}
			if got != want {
				t.Errorf("earlier is %q, want %q", got, want)
			}
		}
		onDisk := func(want string) {
			t.Helper()
			e, err := (&Cache{Options: Options{Dir: dir, Client: "checkout"}}).read()
			must(t, err)
			if e.document.Client != want {
				t.Errorf("on disk is %q, want %q", e.document.Client, want)
			}
		}

		// It is refused in time: what was kept stays, for good.
		refused := has(t, `{"schema":1,"client":"refused"}`)
		p := startFresh(t, dir, "checkout", "")
		p.hears(refused)
		earlier(p, "checkout")
		p.refuses.Store(refused.Document)
		<-time.After(time.Hour)
		earlier(p, "checkout")
		onDisk("checkout")
		// The next one is good.
		p.hears(has(t, `{"schema":1,"client":"good"}`))
		synctest.Wait()
		earlier(p, "")
		onDisk("good")
		p.stop()

		// It stands.
		p = startFresh(t, dir, "checkout", "")
		p.hears(has(t, `{"schema":1,"client":"later"}`))
		earlier(p, "good")
		onDisk("good")
		<-time.After(settleAfter)
		synctest.Wait()
		earlier(p, "")
		onDisk("later")
		p.stop()

		// It stands when the process ends, however soon, or is refused by then.
		p = startFresh(t, dir, "checkout", "")
		p.hears(has(t, `{"schema":1,"client":"brief"}`))
		p.stop()
		onDisk("brief")
		p = startFresh(t, dir, "checkout", "")
		p.hears(refused)
		p.refuses.Store(refused.Document)
		p.stop()
		onDisk("brief")
		if len(p.noted()) > 0 {
			t.Errorf("it noted %q", p.noted())
		}
	})
}

// at is a document of one policy at a generation; uid tells policies apart.
func at(t *testing.T, uid string, generation int64) source.Update {
	t.Helper()
	raw, err := document.Render(&document.Document{Client: "checkout", Policies: []document.PolicyRef{{Name: "p", UID: uid, Generation: generation}}})
	must(t, err)
	return has(t, string(raw))
}

func standIn(u source.Update, warning string) source.Update {
	u.StandsIn, u.Check = true, &source.Check{}
	u.Check.Mark(time.Now())
	if warning != "" {
		u.Reason, u.Detail = source.ReasonUnreachable, warning
	}
	return u
}

// What stands in for another source is held against what was kept; what has the
// say never is, and nothing is once a source's document came through.
func TestWhatStandsInDoesNotGoBehindWhatWasKept(t *testing.T) {
	broken := standIn(at(t, "u", 4), "")
	broken.Err, broken.Reason = errors.New("client/policy.json is broken"), source.ReasonInvalidInitial
	for _, c := range []struct {
		name   string
		says   []source.Update
		kept   []bool // whether what was kept is in force after each
		words  string // of the first
		onDisk int64  // generation that the next process finds
	}{
		{"older", []source.Update{standIn(at(t, "u", 4), "")}, []bool{true}, "has not answered yet", 5},
		{"older, with a warning", []source.Update{standIn(at(t, "u", 4), "API: no route"), standIn(at(t, "u", 3), "API: no route")}, []bool{true, true}, "API: no route", 5},
		{"older, with an error", []source.Update{broken}, []bool{true}, "client/policy.json is broken", 5},
		{"the same", []source.Update{standIn(at(t, "u", 5), "API: no route")}, []bool{false}, "", 5},
		{"newer", []source.Update{standIn(at(t, "u", 6), "API: no route")}, []bool{false}, "", 6},
		{"older, then newer, then older", []source.Update{standIn(at(t, "u", 4), ""), standIn(at(t, "u", 6), ""), standIn(at(t, "u", 4), "")}, []bool{true, false, false}, "", 4},
		{"it cannot be told", []source.Update{standIn(at(t, "v", 1), "")}, []bool{false}, "", 1},
		{"older, and has the say", []source.Update{at(t, "u", 4)}, []bool{false}, "", 4},
		{"older, then older with the say", []source.Update{standIn(at(t, "u", 4), ""), at(t, "u", 4)}, []bool{true, false}, "", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				first := startProcess(t, dir, "checkout", "")
				first.hears(at(t, "u", 5))
				first.stop()
				p := startProcess(t, dir, "checkout", "")
				for i, says := range c.says {
					u := p.hears(says)
					kept := u.Reason == source.ReasonCached && u.Err != nil && u.Document.Policies[0].Generation == 5 && u.Check == nil
					passed := u.Reason == says.Reason && u.Document == says.Document && u.Check == says.Check
					if kept != c.kept[i] || passed == c.kept[i] {
						t.Errorf("update %d became %+v", i, u)
					}
					if i == 0 && !strings.Contains(u.Message(), c.words) {
						t.Errorf("the message is %q", u.Message())
					}
				}
				p.stop()
				if u, notes := after(t, dir, "checkout", ""); u.Document == nil || u.Document.Policies[0].Generation != c.onDisk || len(notes) > 0 {
					t.Errorf("the next process has %+v, noted %q", u.Document, notes)
				}
			})
		})
	}
}

// The client's own document is there and cannot be used, and the one of the
// namespace is well: a process that goes on keeps the last good one of its own.
func TestTheNamespacesDocumentDoesNotReplaceOneThatIsBroken(t *testing.T) {
	own, all := `{"schema":1,"client":"checkout"}`, `{"schema":1,"namespace":"shop"}`
	fault := func(u source.Update) source.Update {
		u.Err, u.Reason = errors.New("client/policy.json is broken"), source.ReasonInvalidInitial
		return u
	}
	for _, c := range []struct {
		name, kept string
		says       source.Update
		stays      bool
	}{
		{"broken", own, fault(has(t, all)), true},
		{"forbidden, and the API server stood in for", own, standIn(fault(has(t, all)), ""), true},
		{"not there", own, has(t, all), false},
		{"not there, and the API server stood in for", own, standIn(has(t, all), "API: no route"), false},
		{"broken, and taken back before", `{"schema":1,"client":"checkout","tombstone":true}`, fault(has(t, all)), false},
		{"broken, and none before", all, fault(has(t, `{"schema":1,"namespace":"shop","mode":"Shadow"}`)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				keep(t, dir, "checkout", "shop", c.kept)
				p := startProcess(t, dir, "checkout", "shop")
				u := p.hears(c.says)
				if stays := u.Reason == source.ReasonCached && u.Document.Revision == has(t, c.kept).Document.Revision; stays != c.stays {
					t.Errorf("it became %+v", u)
				}
				if c.stays && !strings.Contains(u.Message(), "client/policy.json is broken") {
					t.Errorf("the message is %q", u.Message())
				}
				// It is mended.
				mended := has(t, `{"schema":1,"client":"checkout","future":2}`)
				if u := p.hears(mended); u.Document != mended.Document || u.Err != nil {
					t.Errorf("with a good one it said %+v", u)
				}
				p.stop()
			})
		})
	}
}

func TestATombstoneIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep(t, dir, "checkout", "", someDocument)
		keep(t, dir, "checkout", "", `{"schema":1,"tombstone":true}`)
		if u, notes := after(t, dir, "checkout", ""); u.Document == nil || !u.Document.Tombstone || len(notes) > 0 {
			t.Errorf("it said %+v, noted %v", u, notes)
		}
	})
}

func TestWithoutAnythingKeptNothingChanges(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		if u, notes := after(t, dir, "checkout", ""); u.Document != nil || u.Reason != source.ReasonNoDocument || len(notes) > 0 {
			t.Errorf("it said %+v, noted %v", u, notes)
		}
	})
}

// Every byte counts: no damage passes for a policy.
func TestADamagedFileIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep(t, dir, "checkout", "", someDocument)
		path := fileIn(t, dir)
		good, err := os.ReadFile(path)
		must(t, err)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1
			e, err := (&Cache{Options: Options{Dir: dir, Client: "checkout"}}).decode(bad)
			if err == nil && (e.document.Revision != has(t, someDocument).Document.Revision) {
				t.Errorf("byte %d changed, and the document was taken", i)
			}
		}
		for _, c := range []struct {
			name, words string
			spoil       func()
		}{
			{"empty", "header", func() { must(t, os.WriteFile(path, nil, 0o600)) }},
			{"truncated", "damaged", func() { must(t, os.WriteFile(path, good[:len(good)-9], 0o600)) }},
			{"another program's", "header", func() { must(t, os.WriteFile(path, []byte("\x00\xff\nhello"), 0o600)) }},
			{"a later format", "format is 2", func() {
				must(t, os.WriteFile(path, bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1), 0o600))
			}},
			{"another document", "its revision is", func() {
				must(t, os.WriteFile(path, bytes.Replace(good, []byte(`"future":1`), []byte(`"future":2`), 1), 0o600))
			}},
			{"too large", "possible size", func() { must(t, os.Truncate(path, 10<<20)) }},
			{"a directory", "", func() { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }},
		} {
			c.spoil()
			u, notes := after(t, dir, "checkout", "")
			if u.Document != nil || u.Reason != source.ReasonNoDocument {
				t.Errorf("%s: it said %+v", c.name, u)
			}
			if len(notes) != 1 || !strings.Contains(notes[0], path) || !strings.Contains(notes[0], c.words) {
				t.Errorf("%s: it noted %q", c.name, notes)
			}
		}
		// The next document mends it, unless something sits in its place.
		must(t, os.Remove(path))
		must(t, os.WriteFile(path, []byte("damaged"), 0o600))
		keep(t, dir, "checkout", "", someDocument)
		if u, _ := after(t, dir, "checkout", ""); u.Document == nil {
			t.Errorf("it said %+v", u)
		}
	})
}

func TestClientsShareADirectoryAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	whose := [][2]string{{"checkout", ""}, {"checkout", "shop"}, {"checkout", "staging"}, {"Checkout", ""}, {"check/out", ""}, {"check_out", ""}, {strings.Repeat("x", 253), ""}, {strings.Repeat("x", 252), ""}, {"../../etc/passwd", ""}}
	synctest.Test(t, func(t *testing.T) {
		text := func(i int) string { return `{"schema":1,"client":"` + string(rune('a'+i)) + `"}` }
		for i, w := range whose {
			keep(t, dir, w[0], w[1], text(i))
		}
		for i, w := range whose {
			if u, notes := after(t, dir, w[0], w[1]); u.Document == nil || u.Document.Client != string(rune('a'+i)) {
				t.Errorf("%q: it said %+v, noted %v", w, u, notes)
			}
		}
		entries, err := os.ReadDir(dir)
		must(t, err)
		if len(entries) != len(whose) {
			t.Errorf("%d files for %d clients", len(entries), len(whose))
		}
		// A file that somebody copied.
		a := &Cache{Options: Options{Dir: dir, Client: "checkout"}}
		b := &Cache{Options: Options{Dir: dir, Client: "Checkout"}}
		data, err := os.ReadFile(b.path())
		must(t, err)
		must(t, os.WriteFile(a.path(), data, 0o600))
		if u, notes := after(t, dir, "checkout", ""); u.Document != nil || len(notes) != 1 || !strings.Contains(notes[0], `client "Checkout"`) {
			t.Errorf("it said %+v, noted %v", u, notes)
		}
	})
}

// brokenFile fails as a full disk does.
type brokenFile struct{ *os.File }

func (brokenFile) Sync() error { return &os.PathError{Op: "sync", Path: "x", Err: syscall.ENOSPC} }

func TestADiskThatFailsDisturbsNobody(t *testing.T) {
	for _, c := range []struct {
		name, words string
		dir         func(string) string
		create      func(dir, pattern string) (tempFile, error)
	}{
		{"not a directory", "not a directory: a file is in the place", func(dir string) string { return os.Args[0] }, nil},
		{"below a file", "not a directory: a file is in the place", func(dir string) string { return filepath.Join(os.Args[0], "a", "b") }, nil},
		{"a link to nowhere", "a file is in the place", func(dir string) string {
			link := filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink("nowhere", link))
			return link
		}, nil},
		{"not allowed", "denied: let user", nil, func(dir, pattern string) (tempFile, error) {
			return nil, &os.PathError{Op: "open", Path: dir + pattern, Err: syscall.EACCES}
		}},
		{"read-only", "read-only file system: mount a volume", nil, func(dir, pattern string) (tempFile, error) {
			return nil, &os.PathError{Op: "open", Path: dir + pattern, Err: syscall.EROFS}
		}},
		{"full", "no space left on device: make room", nil, func(dir, pattern string) (tempFile, error) {
			f, err := os.CreateTemp(dir, pattern)
			return brokenFile{f}, err
		}},
	} {
		dir := t.TempDir()
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := dir
				if c.dir != nil {
					at = c.dir(dir)
				}
				p := startProcess(t, at, "checkout", "", func(k *Cache) {
					if c.create != nil {
						k.create = c.create
					}
				})
				if u := p.hears(nothingThere); u.Document != nil || u.Reason != source.ReasonNoDocument {
					t.Errorf("it said %+v", u)
				}
				if n := len(p.noted()); n != 1 && c.name != "full" {
					t.Errorf("without a document it noted %q, want the trouble", p.noted())
				}
				want := has(t, someDocument)
				if u := p.hears(want); u.Document != want.Document || u.Err != nil {
					t.Errorf("it said %+v", u)
				}
				<-time.After(10 * retryAfter)
				p.hears(has(t, `{"schema":1}`))
				if notes := p.noted(); len(notes) != 1 || !strings.Contains(notes[0], "is not kept in "+at) || !strings.Contains(notes[0], c.words) {
					t.Errorf("it noted %q, want %q once", notes, c.words)
				}
				p.stop()
				if entries, _ := os.ReadDir(dir); len(entries) > 0 {
					t.Errorf("it left %v behind", entries)
				}
			})
		})
	}
}

// A document that could not be written is written once there is room.
func TestAWriteThatFailedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		p := startProcess(t, dir, "checkout", "", func(k *Cache) {
			k.create = func(dir, pattern string) (tempFile, error) {
				if full.Load() {
					return nil, syscall.ENOSPC
				}
				return os.CreateTemp(dir, pattern)
			}
		})
		p.hears(has(t, someDocument))
		synctest.Wait()
		full.Store(false)
		<-time.After(retryAfter + time.Second)
		synctest.Wait()
		if notes := p.noted(); len(notes) != 2 || notes[1] != "well" {
			t.Errorf("it noted %q", notes)
		}
		fileIn(t, dir)
		p.stop()
	})
}

// What a process that was killed left behind is deleted, the work of others is
// not.
func TestAbandonedFilesAreSwept(t *testing.T) {
	dir := t.TempDir()
	name := (&Cache{Options: Options{Dir: dir, Client: "checkout"}}).name()
	long := time.Now().Add(-24 * time.Hour)
	for path, old := range map[string]bool{"." + name + "-1.tmp": true, "." + name + "-2.tmp": false, ".other-1.tmp": true} {
		must(t, os.WriteFile(filepath.Join(dir, path), nil, 0o600))
		if old {
			must(t, os.Chtimes(filepath.Join(dir, path), long, long))
		}
	}
	w := newWriter(New(Options{Dir: dir, Client: "checkout"}))
	if !w.write(has(t, someDocument)) {
		t.Fatalf("it said %s", w.told)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".other-1.tmp", "." + name + "-2.tmp", name + ".json"}; strings.Join(left, " ") != strings.Join(want, " ") {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// A document that is on disk already is not written again.
func TestTheSameDocumentIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep(t, dir, "checkout", "", someDocument)
		before, err := os.Stat(fileIn(t, dir))
		must(t, err)
		<-time.After(time.Hour)
		keep(t, dir, "checkout", "", someDocument)
		after, err := os.Stat(fileIn(t, dir))
		must(t, err)
		if !os.SameFile(before, after) {
			t.Error("it was written again")
		}
	})
}
