package clientlib_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// written is what a source says that has read a document.
func written(t *testing.T, generation int, rules string) source.Update {
	t.Helper()
	doc := policy(t, generation, rules)
	raw, err := document.Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	return source.Update{Document: doc, Raw: raw, Delivery: source.DeliveryMount, Origin: "/etc/timeouts"}
}

// settled lets the time pass after which documents are kept at once.
func settled() {
	<-time.After(time.Minute)
	synctest.Wait()
}

var noDocument = source.Update{Err: errors.New("nothing there"), Reason: source.ReasonNoDocument, Delivery: source.DeliveryMount}

func TestAPolicyOnDiskOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("POD_NAMESPACE", "shop")
	withClient(t, written(t, 1, oneSecond), func(t *testing.T, f *fixture) {
		f.feed.say(written(t, 2, twoSeconds))
	}, clientlib.WithCache(dir))

	// The next one finds nothing.
	withClient(t, noDocument, func(t *testing.T, f *fixture) {
		s := f.Status()
		if limit(f.Client) != 2*time.Second || s.State != clientlib.StateStale || s.Reason != source.ReasonCached || filepath.Dir(s.Origin) != dir {
			t.Errorf("limit %s, status %+v", limit(f.Client), s)
		}
		if p := f.notes.last.Policies; len(p) != 1 || p[0].State != report.PolicyStale || p[0].Reason != "Cached" || p[0].Generation != 2 {
			t.Errorf("reported %+v", f.notes.last)
		}
		if n := strings.Count(f.log.String(), "reason=Cached"); n != 1 || len(s.Warnings) != 0 {
			t.Errorf("logged %d times, warnings %v:\n%s", n, s.Warnings, f.log)
		}
		f.feed.say(written(t, 2, twoSeconds))
		if s := f.Status(); s.State != clientlib.StateReady || s.Reason != source.ReasonNone || s.Origin != "/etc/timeouts" {
			t.Errorf("the same document from the source left %+v", s)
		}
		f.feed.say(written(t, 3, oneSecond))
		if limit(f.Client) != time.Second {
			t.Error("the source's next document is not in force")
		}
	}, clientlib.WithCache(dir))
}

// A document that an adapter must refuse is not the last good one.
func TestARefusedDocumentIsNotKeptOverAGoodOne(t *testing.T) {
	dir := t.TempDir()
	withClient(t, written(t, 1, twoSeconds), func(t *testing.T, f *fixture) {
		f.UseAdapter(weak())
		f.feed.say(written(t, 2, `,"onUnsupported":"Reject","timeouts":{"total":"1s","connect":"500ms"}`))
		if s := f.Status(); s.Reason != clientlib.ReasonUnsupported || limit(f.Client) != 2*time.Second {
			t.Errorf("status %+v", s)
		}
	}, clientlib.WithCache(dir))
	withClient(t, noDocument, func(t *testing.T, f *fixture) {
		f.UseAdapter(weak())
		if s := f.Status(); limit(f.Client) != 2*time.Second || s.State != clientlib.StateStale || s.Reason != source.ReasonCached {
			t.Errorf("the next process has limit %s, status %+v", limit(f.Client), s)
		}
	}, clientlib.WithCache(dir))
}

// A pod restarts while the API server is down, and its mount lags behind: it does
// not go back to what the mount shows.
func TestARestartInAnOutageDoesNotGoBack(t *testing.T) {
	dir := t.TempDir()
	withClient(t, written(t, 2, twoSeconds), func(*testing.T, *fixture) {}, clientlib.WithCache(dir))

	synctest.Test(t, func(t *testing.T) {
		api, mount := make(feed, 1), make(feed, 1)
		mount <- written(t, 1, oneSecond)
		client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(source.Prefer(api, mount)), clientlib.WithReporter(nil),
			clientlib.WithCache(dir), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		want := func(when string, total time.Duration, state clientlib.State, reason source.Reason, words string) {
			t.Helper()
			synctest.Wait()
			if s := client.Status(); limit(client) != total || s.State != state || s.Reason != reason || !strings.Contains(s.Message, words) {
				t.Errorf("%s: limit %s, status %+v", when, limit(client), s)
			}
		}
		want("before the API server was heard", 2*time.Second, clientlib.StateStale, source.ReasonCached, "has not answered yet")
		api.say(source.Update{Err: errors.New("no route"), Reason: source.ReasonUnreachable, Delivery: source.DeliveryWatch})
		want("without the API server", 2*time.Second, clientlib.StateStale, source.ReasonCached, "no route")
		if at := client.Status().CheckedAt; !at.IsZero() {
			t.Errorf("nobody made sure of it, and it says %s", at)
		}
		mount.say(written(t, 2, twoSeconds))
		want("the mount has caught up", 2*time.Second, clientlib.StateReady, source.ReasonUnreachable, "no route")
		// It was restored from a backup: it has the say.
		restored := written(t, 1, oneSecond)
		restored.Delivery, restored.Origin = source.DeliveryWatch, "the API"
		api.say(restored)
		want("with the API server", time.Second, clientlib.StateReady, source.ReasonNone, "")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The document that a restart finds asks for what an adapter cannot do, which is
// known only once the program has made that adapter: the last good one of the
// process before is in force then, not nothing.
func TestARestartWithARefusedDocumentHasTheLastGoodOne(t *testing.T) {
	const reject = `,"onUnsupported":"Reject","timeouts":{"total":"1s","connect":"500ms"}`
	for name, wait := range map[string]func(){"at once": func() {}, "after some seconds": func() { <-time.After(5 * time.Second) }} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			withClient(t, written(t, 1, twoSeconds), func(*testing.T, *fixture) {}, clientlib.WithCache(dir))
			for restart := range 2 {
				withClient(t, written(t, 2, reject), func(t *testing.T, f *fixture) {
					wait()
					f.UseAdapter(weak())
					s := f.Status()
					if limit(f.Client) != 2*time.Second || s.State != clientlib.StateStale || s.Reason != clientlib.ReasonUnsupported || filepath.Dir(s.Origin) != dir || s.Rejected == nil {
						t.Errorf("restart %d: limit %s, status %+v", restart, limit(f.Client), s)
					}
					if got := strings.Join(f.changes.results, " "); got != "applied rejected" {
						t.Errorf("restart %d: changes: %s", restart, got)
					}
					if p := f.notes.last.Policies; len(p) != 1 || p[0].State != report.PolicyRejected || p[0].Generation != 2 {
						t.Errorf("restart %d: reported %+v", restart, f.notes.last)
					}
					another := weak()
					another.Adapter = "another"
					f.UseAdapter(another)
					if limit(f.Client) != 2*time.Second {
						t.Errorf("restart %d: with another adapter the limit is %s", restart, limit(f.Client))
					}
					settled()
				}, clientlib.WithCache(dir))
			}
			withClient(t, written(t, 2, reject), func(t *testing.T, f *fixture) {
				f.UseAdapter(weak())
				f.feed.say(written(t, 3, oneSecond))
				if s := f.Status(); limit(f.Client) != time.Second || s.State != clientlib.StateReady || s.Origin != "/etc/timeouts" {
					t.Errorf("with the next document: limit %s, status %+v", limit(f.Client), s)
				}
				settled()
			}, clientlib.WithCache(dir))
		})
	}
}

// What was kept is refused too, or of long ago: then the fallback is in force, as
// without a cache.
func TestARefusedDocumentIsNotReplacedByAnotherOne(t *testing.T) {
	const reject = `,"onUnsupported":"Reject","timeouts":{"total":"1s","connect":"500ms"}`
	dir := t.TempDir()
	withClient(t, written(t, 1, reject), func(*testing.T, *fixture) {}, clientlib.WithCache(dir))
	withClient(t, written(t, 2, reject), func(t *testing.T, f *fixture) {
		f.UseAdapter(weak())
		if s := f.Status(); limit(f.Client) != -1 || s.State != clientlib.StateFallback || s.Reason != clientlib.ReasonUnsupported {
			t.Errorf("limit %s, status %+v", limit(f.Client), s)
		}
	}, clientlib.WithCache(dir))
	withClient(t, written(t, 3, oneSecond), func(*testing.T, *fixture) {}, clientlib.WithCache(dir))
	withClient(t, written(t, 4, reject), func(t *testing.T, f *fixture) {
		settled()
		f.UseAdapter(weak())
		if s := f.Status(); limit(f.Client) != -1 || s.State != clientlib.StateFallback {
			t.Errorf("an adapter that comes late: limit %s, status %+v", limit(f.Client), s)
		}
	}, clientlib.WithCache(dir))
}

func TestACachedPolicyIsEnoughForWhoRequiresOne(t *testing.T) {
	dir := t.TempDir()
	withClient(t, written(t, 1, oneSecond), func(*testing.T, *fixture) {}, clientlib.WithCache(dir))
	synctest.Test(t, func(t *testing.T) {
		f := make(feed, 1)
		f <- noDocument
		client, err := clientlib.New(context.Background(), "checkout", clientlib.WithSource(f), clientlib.WithReporter(nil),
			clientlib.WithCache(dir), clientlib.WithRequirePolicy(time.Second), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		if limit(client) != time.Second {
			t.Errorf("limit %s", limit(client))
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// It is told once, before there is a policy and after.
func TestACacheThatCannotBeHadChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/timeouts"} {
		withClient(t, noDocument, func(t *testing.T, f *fixture) {
			synctest.Wait()
			if n := strings.Count(f.log.String(), "cannot be had"); n != 1 {
				t.Errorf("%s: before there is a policy it was told %d times:\n%s", dir, n, f.log)
			}
			for generation := range 5 {
				f.feed.say(written(t, generation+2, twoSeconds))
			}
			s := f.Status()
			if limit(f.Client) != 2*time.Second || s.State != clientlib.StateReady {
				t.Errorf("%s: limit %s, status %+v", dir, limit(f.Client), s)
			}
			if n := strings.Count(f.log.String(), "cannot be had"); n != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], dir+": ") {
				t.Errorf("%s: logged %d times, warnings %q:\n%s", dir, n, s.Warnings, f.log)
			}
		}, clientlib.WithCache(dir))
	}
	if _, err := clientlib.New(t.Context(), "c", clientlib.WithCache("")); err == nil || !strings.Contains(err.Error(), "WithCache") {
		t.Errorf("an empty directory: %v", err)
	}
}

// A warning about the disk goes when its cause does, and the next one is told.
func TestADiskThatCanBeHadAgainIsNoWarning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	block := func() {
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	block()
	withClient(t, written(t, 1, oneSecond), func(t *testing.T, f *fixture) {
		f.Warn("something else")
		settled()
		generation := 1
		for round := range 2 {
			generation++
			f.feed.say(written(t, generation, twoSeconds))
			synctest.Wait()
			if w := f.Status().Warnings; len(w) != 2 {
				t.Errorf("round %d: with a file in the place of the directory the warnings are %q", round, w)
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			generation++
			f.feed.say(written(t, generation, oneSecond))
			synctest.Wait()
			if w := f.Status().Warnings; len(w) != 1 || w[0] != "something else" {
				t.Errorf("round %d: with the directory the warnings are %q", round, w)
			}
			if n := strings.Count(f.log.String(), "cannot be had"); n != round+1 {
				t.Errorf("round %d: the trouble was told %d times", round, n)
			}
			block()
		}
	}, clientlib.WithCache(dir))
}

// Where there are too many warnings to show it, it is logged all the same.
func TestADiskThatFailsIsLoggedBesideManyWarnings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	withClient(t, noDocument, func(t *testing.T, f *fixture) {
		settled()
		for i := range 20 {
			f.Warn(strings.Repeat("x", i+1))
		}
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		for generation := range 3 {
			f.feed.say(written(t, generation+1, oneSecond))
			synctest.Wait()
		}
		if n := strings.Count(f.log.String(), "cannot be had"); n != 1 {
			t.Errorf("it was told %d times:\n%s", n, f.log)
		}
	}, clientlib.WithCache(file))
}

// A directory that is not there is made, which is nothing to tell.
func TestTheDirectoryOfTheCacheIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "cache")
	withClient(t, written(t, 1, oneSecond), func(t *testing.T, f *fixture) {
		synctest.Wait()
		if w := f.Status().Warnings; len(w) > 0 || strings.Contains(f.log.String(), "WARN") {
			t.Errorf("warnings %q:\n%s", w, f.log)
		}
	}, clientlib.WithCache(dir))
	withClient(t, noDocument, func(t *testing.T, f *fixture) {
		if s := f.Status(); s.Reason != source.ReasonCached || limit(f.Client) != time.Second {
			t.Errorf("status %+v", s)
		}
	}, clientlib.WithCache(dir))
}

// What a source makes sure of is shown without another word of it.
func TestTheStatusTellsWhenTheSourceWasSure(t *testing.T) {
	check := &source.Check{}
	withClient(t, source.Update{Document: policy(t, 1, oneSecond), Check: check}, func(t *testing.T, f *fixture) {
		if at := f.Status().CheckedAt; !at.IsZero() {
			t.Errorf("checked at %s before it was", at)
		}
		check.Mark(time.Now())
		first := f.Status().CheckedAt
		<-time.After(time.Minute)
		check.Mark(time.Now())
		if passed := f.Status().CheckedAt.Sub(first); passed != time.Minute {
			t.Errorf("the second check is %s after the first", passed)
		}
		if got := strings.Join(f.changes.results, " "); got != "applied" {
			t.Errorf("changes: %s", got)
		}
	})
}
