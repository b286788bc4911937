package source

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// fault is something that goes wrong with the volume or file at dir.
type fault struct {
	name string
	// strike does it; heal, if it is set, takes it back.
	strike func(t *testing.T, dir string)
	want   Fault
	reason Reason // after a good document
	first  Reason // without one
}

// content puts other bytes in the place of the document, as a new version.
func content(data []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) { newVolume(t, dir).policy(data) }
}

func contentFaults(t *testing.T) []fault {
	good := docFor(t, "checkout")
	edited := bytes.Replace(good, []byte("orders.example.com"), []byte("orders.example.org"), 1)
	future := bytes.Replace(good, []byte(`"schema": 1`), []byte(`"schema": 2`), 1)
	large := append(bytes.Repeat([]byte(" "), 2<<20), good...)
	var faults []fault
	for _, f := range []struct {
		name string
		data []byte
		want Fault
	}{
		{"empty file", nil, FaultEmpty},
		{"white space", []byte(" \n\n"), FaultEmpty},
		{"truncated", good[:len(good)/2], FaultTruncated},
		{"truncated before the last brace", good[:len(good)-2], FaultTruncated},
		{"NUL bytes", make([]byte, 512), FaultSyntax},
		{"NUL bytes at the end", append(bytes.Clone(good), 0, 0, 0), FaultSyntax},
		{"YAML", []byte("schema: 1\nupstreams: []\n"), FaultSyntax},
		{"not UTF-8", []byte("{\"schema\":1,\"namespace\":\"\xff\"}"), FaultSyntax},
		{"two documents", append(bytes.Clone(good), good...), FaultSyntax},
		{"2 MiB", large, FaultTooLarge},
		{"wrong digest", edited, FaultDigest},
		{"unknown schema", future, FaultSchema},
		{"no schema", []byte(`{"upstreams":[]}`), FaultSchema},
		{"another program's JSON", []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`), FaultSchema},
		{"a list", []byte(`[1,2,3]`), FaultInvalid},
		{"a string", []byte(`"policy"`), FaultInvalid},
		{"null", []byte(`null`), FaultInvalid},
		{"field of another type", []byte(`{"schema":1,"upstreams":{}}`), FaultInvalid},
		{"limit without a unit", []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"timeouts":{"total":600}}]}`), FaultInvalid},
		{"breaker without a recovery", []byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["a"],"circuitBreaker":{"recovery":"0s"}}]}`), FaultInvalid},
		{"deeply nested", append(bytes.Repeat([]byte("["), 100000), bytes.Repeat([]byte("]"), 100000)...), FaultInvalid},
	} {
		faults = append(faults, fault{f.name, content(f.data), f.want, ReasonInvalidUpdate, ReasonInvalidInitial})
	}
	return faults
}

func placeFaults(t *testing.T) []fault {
	clear := func(t *testing.T, dir string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return []fault{
		{"key removed", func(t *testing.T, dir string) {
			newVolume(t, dir).write(map[string][]byte{"other": []byte("x")})
		}, FaultMissing, ReasonSourceGone, ReasonNoDocument},
		{"directory emptied", clear, FaultMissing, ReasonSourceGone, ReasonNoDocument},
		{"directory deleted", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
		}, FaultMissing, ReasonSourceGone, ReasonNoDocument},
		{"directory is a file", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			put(t, dir, []byte("x"))
		}, FaultMissing, ReasonSourceGone, ReasonNoDocument},
		{"..data missing for a while", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Symlink("..data/"+DocumentKey, filepath.Join(dir, DocumentKey)))
		}, FaultDanglingLink, ReasonSourceGone, ReasonNoDocument},
		{"..data leads nowhere", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Symlink("..gone", filepath.Join(dir, dataLink)))
		}, FaultDanglingLink, ReasonSourceGone, ReasonNoDocument},
		{"file leads nowhere", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Symlink("/nowhere/"+DocumentKey, filepath.Join(dir, DocumentKey)))
		}, FaultDanglingLink, ReasonSourceGone, ReasonNoDocument},
		{"..data in a loop", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Symlink(dataLink, filepath.Join(dir, dataLink)))
		}, FaultSymlinkLoop, ReasonUnreadable, ReasonUnreadable},
		{"file in a loop", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Symlink(DocumentKey, filepath.Join(dir, DocumentKey)))
		}, FaultSymlinkLoop, ReasonUnreadable, ReasonUnreadable},
		{"directory in a loop", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.Symlink(filepath.Base(dir), dir))
		}, FaultSymlinkLoop, ReasonUnreadable, ReasonUnreadable},
		{"file is a directory", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, os.Mkdir(filepath.Join(dir, DocumentKey), 0o755))
		}, FaultNotRegular, ReasonUnreadable, ReasonUnreadable},
		{"file is a pipe that nobody writes to", func(t *testing.T, dir string) {
			clear(t, dir)
			must(t, syscall.Mkfifo(filepath.Join(dir, DocumentKey), 0o644))
		}, FaultNotRegular, ReasonUnreadable, ReasonUnreadable},
		{"file may not be read", func(t *testing.T, dir string) {
			clear(t, dir)
			put(t, filepath.Join(dir, DocumentKey), docFor(t, "secret"))
			must(t, os.Chmod(filepath.Join(dir, DocumentKey), 0))
		}, FaultPermission, ReasonUnreadable, ReasonUnreadable},
		{"directory may not be entered", func(t *testing.T, dir string) {
			must(t, os.Chmod(dir, 0))
			t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		}, FaultPermission, ReasonUnreadable, ReasonUnreadable},
	}
}

// heal puts a good volume in the place of whatever is there.
func heal(t *testing.T, dir, client string) {
	t.Helper()
	must(t, os.RemoveAll(dir))
	newVolume(t, dir).policy(docFor(t, client))
}

// Whatever happens to a document that is in force, it stays in force, the
// reason is told once, and the next good one is applied.
//
// Cases R09, R14, R18.
func TestFaultKeepsLastGoodAndSaysWhy(t *testing.T) {
	for _, f := range append(contentFaults(t), placeFaults(t)...) {
		for layout, dir := range map[string]string{"client": "client", "plain": "."} {
			t.Run(f.name+"/"+layout, func(t *testing.T) {
				root := filepath.Join(tempDir(t), "timeouts")
				at := filepath.Join(root, dir)
				synctest.Test(t, func(t *testing.T) {
					newVolume(t, at).policy(docFor(t, "checkout"))
					r := start(t, unprivileged{Dir(root, withHub(newHub(openFake(newFakeWatcher()))), WithClock(&backwards{Clock: clock.System()}))})
					advance(time.Second)
					r.wantClient("checkout")
					good := r.last()

					f.strike(t, at)
					advance(10 * pollWatched)
					r.wantUpdates(2)
					u := r.last()
					if u.Document != good.Document || !bytes.Equal(u.Raw, good.Raw) || u.Origin != good.Origin {
						t.Errorf("the last good document is not kept: %s", describeUpdate(u))
					}
					if faultOf(u) != f.want || u.Reason != f.reason {
						t.Errorf("fault %q, reason %q, want %q and %q (%v)", faultOf(u), u.Reason, f.want, f.reason, u.Err)
					}
					if u.Message() == "" || bytes.ContainsAny([]byte(u.Message()), "\n\r\x00") {
						t.Errorf("message %q is not one line", u.Message())
					}

					heal(t, at, "healed")
					advance(2 * pollWatched)
					r.wantUpdates(3)
					r.wantClient("healed")
				})
			})
		}
	}
}

// A fault at the start does not stop the source from finding a good document
// later.
//
// Cases R08, R14.
func TestFaultAtTheStartIsToldAndHeals(t *testing.T) {
	for _, f := range append(contentFaults(t), placeFaults(t)...) {
		t.Run(f.name, func(t *testing.T) {
			root := filepath.Join(tempDir(t), "timeouts")
			synctest.Test(t, func(t *testing.T) {
				must(t, os.MkdirAll(root, 0o755))
				f.strike(t, root)
				r := start(t, unprivileged{Dir(root, withHub(newHub(openFake(newFakeWatcher()))))})
				advance(10 * pollWatched)
				r.wantUpdates(1)
				u := r.last()
				if u.Document != nil || u.Raw != nil || u.Origin != "" {
					t.Errorf("there is a document: %s", describeUpdate(u))
				}
				if faultOf(u) != f.want || u.Reason != f.first {
					t.Errorf("fault %q, reason %q, want %q and %q (%v)", faultOf(u), u.Reason, f.want, f.first, u.Err)
				}

				heal(t, root, "healed")
				advance(2 * pollWatched)
				r.wantUpdates(2)
				r.wantClient("healed")
			})
		})
	}
}

func TestEarlierContentClearsTheError(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		v.policy(docFor(t, "a"))
		r := start(t, Dir(root, withHub(newHub(openFake(newFakeWatcher())))))
		advance(time.Second)
		v.policy([]byte("{"))
		advance(2 * pollWatched)
		if r.last().Reason != ReasonInvalidUpdate {
			t.Fatalf("got %s", describeUpdate(r.last()))
		}
		v.policy(docFor(t, "a"))
		advance(2 * pollWatched)
		r.wantUpdates(3)
		r.wantClient("a")
	})
}

// Case R25.
func TestEachBadContentIsToldOnce(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, root)
		r := start(t, Dir(root, withHub(newHub(openFake(newFakeWatcher())))))
		advance(time.Second)
		v.policy([]byte(`{"schema":1,"upstreams":[1]}`))
		advance(20 * pollWatched)
		r.wantUpdates(2)
		// Other content with the same text of the error is news.
		v.policy([]byte(`{"schema":1,"upstreams":[1] }`))
		advance(20 * pollWatched)
		r.wantUpdates(3)
		// The same content as a new version is not.
		v.policy([]byte(`{"schema":1,"upstreams":[1] }`))
		advance(20 * pollWatched)
		r.wantUpdates(3)
	})
}

// A generation can go down, when a policy is deleted and made anew or rolled
// back, and so can the times of files: only the revision counts.
//
// Case R32.
func TestDocumentIsAppliedWhateverItsGenerationAndAge(t *testing.T) {
	root := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		generation := func(n int64, uid string) []byte {
			return rendered(t, &document.Document{Client: uid, Policies: []document.PolicyRef{{Name: "p", UID: uid, Generation: n}}})
		}
		path := filepath.Join(root, DocumentKey)
		put(t, path, generation(9, "old"))
		r := start(t, File(path, withHub(newHub(openFake(newFakeWatcher()))), withMounts("")))
		advance(time.Second)
		r.wantClient("old")
		put(t, path, generation(1, "new"))
		must(t, os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)))
		advance(2 * pollWatched)
		r.wantClient("new")
	})
}

// A process that is out of file descriptors cannot read, and must not take that
// for a change of policy.
func TestOutOfFileDescriptors(t *testing.T) {
	root := tempDir(t)
	put(t, filepath.Join(root, DocumentKey), docFor(t, "checkout"))
	run := newRun(t, root)
	good := run.look()
	if good.Err != nil {
		t.Fatal(good.Err)
	}

	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
	bad := run.look()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))

	if bad.Document != good.Document || bad.Reason != ReasonUnreadable || faultOf(bad) != FaultIO {
		t.Errorf("without descriptors: %s", describeUpdate(bad))
	}
	if again := run.look(); again.Err != nil || again.Document != good.Document {
		t.Errorf("with descriptors: %s", describeUpdate(again))
	}
}
