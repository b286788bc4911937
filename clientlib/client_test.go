package clientlib_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// feed is a source that says what the test tells it.
type feed chan source.Update

func (f feed) Run(ctx context.Context, sink func(source.Update)) error {
	for {
		select {
		case u := <-f:
			sink(u)
		case <-ctx.Done():
			return nil
		}
	}
}

// say hands an update over and waits until it took effect.
func (f feed) say(u source.Update) {
	f <- u
	synctest.Wait()
}

// notes keeps the last report of each client.
type notes struct{ last report.Client }

func (n *notes) Update(_ string, c report.Client) { n.last = c }

// changes is an observer of policies.
type changes struct{ results []string }

func (*changes) Recorder(string, string) engine.Recorder { return nothing{} }
func (c *changes) PolicyChanged(p clientlib.PolicyChange) {
	c.results = append(c.results, p.Result)
}

type nothing struct{}

func (nothing) CallStarted(string)                 {}
func (nothing) AttemptDone(engine.AttemptEvent)    {}
func (nothing) CallDone(engine.CallEvent)          {}
func (nothing) BodyDone(engine.BodyEvent)          {}
func (nothing) WouldCut(string)                    {}
func (nothing) CircuitChanged(engine.CircuitState) {}

// policy is a document of one upstream and one policy at a generation.
func policy(t *testing.T, generation int, rules string) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(fmt.Sprintf(`{"schema":1,
		"policies":[{"namespace":"shop","name":"orders","uid":"u1","generation":%d}],
		"upstreams":[{"name":"orders","hosts":["orders"]%s}]}`, generation, rules)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

type fixture struct {
	*clientlib.Client
	feed    feed
	notes   *notes
	changes *changes
	log     *strings.Builder
}

// withClient makes a client in fake time whose source has said first.
func withClient(t *testing.T, first source.Update, test func(t *testing.T, f *fixture), opts ...clientlib.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{feed: make(feed, 1), notes: &notes{}, changes: &changes{}, log: &strings.Builder{}}
		f.feed <- first
		all := append([]clientlib.Option{
			clientlib.WithSource(f.feed), clientlib.WithReporter(f.notes), clientlib.WithObserver(f.changes),
			clientlib.WithLogger(slog.New(slog.NewTextHandler(f.log, nil))),
		}, opts...)
		client, err := clientlib.New(t.Context(), "checkout", all...)
		if err != nil {
			t.Fatal(err)
		}
		f.Client = client
		test(t, f)
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func limit(c *clientlib.Client) time.Duration {
	p := c.Engine().Snapshot().Lookup("orders", 80, document.Call{})
	if p == nil {
		return -1
	}
	return p.Total
}

const oneSecond, twoSeconds = `,"timeouts":{"total":"1s"}`, `,"timeouts":{"total":"2s"}`

func TestADocumentThatIsThereIsInForceWhenNewReturns(t *testing.T) {
	withClient(t, source.Update{Document: policy(t, 1, oneSecond), Delivery: source.DeliveryMount, Origin: "/etc/timeouts"}, func(t *testing.T, f *fixture) {
		s := f.Status()
		if limit(f.Client) != time.Second || s.State != clientlib.StateReady || s.Revision == "" || s.Origin != "/etc/timeouts" {
			t.Errorf("limit %s, status %+v", limit(f.Client), s)
		}
		if p := f.notes.last.Policies; len(p) != 1 || p[0].State != report.PolicyApplied || p[0].Generation != 1 {
			t.Errorf("reported %+v", f.notes.last)
		}
	})
}

// Case R30.
func TestWithoutADocumentAClientStartsAndSaysSo(t *testing.T) {
	none := source.Update{Err: errors.New("nothing there"), Reason: source.ReasonNoDocument, Delivery: source.DeliveryMount}
	withClient(t, none, func(t *testing.T, f *fixture) {
		if s := f.Status(); s.State != clientlib.StateFallback || s.Reason != source.ReasonNoDocument || limit(f.Client) != -1 {
			t.Errorf("status %+v", s)
		}
		if !strings.Contains(f.log.String(), "NoDocument") || f.notes.last.State != report.StateFallback {
			t.Errorf("log %q, report %+v", f.log, f.notes.last)
		}
	})
	withClient(t, none, func(t *testing.T, f *fixture) {
		if limit(f.Client) != 2*time.Second || f.Status().State != clientlib.StateFallback {
			t.Errorf("limit %s: the fallback document is not in force", limit(f.Client))
		}
		if f.notes.last.Revision != "" || len(f.notes.last.Policies) != 0 {
			t.Errorf("the fallback document is reported as a policy: %+v", f.notes.last)
		}
	}, clientlib.WithFallback(policy(t, 1, twoSeconds)))
}

// Case R25.
func TestABadDocumentNeverDisplacesAGoodOne(t *testing.T) {
	good := policy(t, 1, oneSecond)
	withClient(t, source.Update{Document: good}, func(t *testing.T, f *fixture) {
		bad := source.Update{Document: good, Err: errors.New("upstreams[0].name: is missing"), Reason: source.ReasonInvalidUpdate}
		f.feed.say(bad)
		before := f.Status()
		if limit(f.Client) != time.Second || before.State != clientlib.StateStale || before.Reason != source.ReasonInvalidUpdate {
			t.Errorf("status %+v", before)
		}
		if p := f.notes.last.Policies[0]; p.State != report.PolicyStale || p.Reason != "InvalidUpdate" {
			t.Errorf("reported %+v", p)
		}
		time.Sleep(time.Minute)
		f.feed.say(bad)
		if n := strings.Count(f.log.String(), "not up to date"); n != 1 || !f.Status().Since.Equal(before.Since) {
			t.Errorf("logged %d times, since %s", n, f.Status().Since)
		}
		f.feed.say(source.Update{Document: good})
		if s := f.Status(); s.State != clientlib.StateReady || s.Reason != "" {
			t.Errorf("going back to the good content left %+v", s)
		}
		if got := strings.Join(f.changes.results, " "); got != "applied invalid recovered" {
			t.Errorf("changes: %s", got)
		}
	})
}

func TestATombstoneIsAPolicyOnPurpose(t *testing.T) {
	grave, err := document.Parse([]byte(`{"schema":1,"tombstone":true}`))
	if err != nil {
		t.Fatal(err)
	}
	withClient(t, source.Update{Document: policy(t, 1, oneSecond)}, func(t *testing.T, f *fixture) {
		f.feed.say(source.Update{Document: grave})
		if s := f.Status(); limit(f.Client) != -1 || s.State != clientlib.StateReady || !s.Tombstone {
			t.Errorf("limit %s, status %+v", limit(f.Client), s)
		}
	})
}

// A warning is told once, and is neither a loss nor a reload.
func TestAWarningLeavesTheClientReady(t *testing.T) {
	good := policy(t, 1, oneSecond)
	withClient(t, source.Update{Document: good, Delivery: source.DeliveryWatch}, func(t *testing.T, f *fixture) {
		for range 3 {
			f.feed.say(source.Update{Document: good, Reason: source.ReasonForbidden, Detail: "the mount stands in", Delivery: source.DeliveryMount})
		}
		if s := f.Status(); s.State != clientlib.StateReady || s.Reason != source.ReasonForbidden || s.Message != "the mount stands in" || s.Delivery != source.DeliveryMount {
			t.Errorf("status %+v", s)
		}
		if r := f.notes.last; r.State != report.StateReady || r.Reason != "Forbidden" || r.Delivery != "Mount" || r.Policies[0].State != report.PolicyApplied {
			t.Errorf("reported %+v", r)
		}
		if n := strings.Count(f.log.String(), "with a warning"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, f.log)
		}
		f.feed.say(source.Update{Document: good, Reason: source.ReasonUnreachable, Err: errors.New("both are gone"), Delivery: source.DeliveryMount})
		f.feed.say(source.Update{Document: good, Reason: source.ReasonForbidden, Detail: "the mount stands in", Delivery: source.DeliveryMount})
		f.feed.say(source.Update{Document: good, Delivery: source.DeliveryWatch})
		if got := strings.Join(f.changes.results, " "); got != "applied unchanged invalid recovered recovered" {
			t.Errorf("changes: %s", got)
		}
	})
}

// weak is an adapter that cannot limit the connect phase.
func weak() capability.Record {
	return capability.Record{Adapter: "weak", Library: "example.com/weak", Support: map[capability.Name]capability.Support{
		capability.TimeoutTotal: {Level: capability.Emulated}, capability.DeadlineHard: {Level: capability.Native},
		capability.DeadlineCoversBody: {Level: capability.Emulated},
	}}
}

func TestADocumentThatAnAdapterCannotHonourIsRejectedOnDemandOnly(t *testing.T) {
	ask := `,"timeouts":{"total":"2s","connect":"1s"}`
	withClient(t, source.Update{Document: policy(t, 1, oneSecond)}, func(t *testing.T, f *fixture) {
		f.UseAdapter(weak())
		f.feed.say(source.Update{Document: policy(t, 2, `,"onUnsupported":"Reject"`+ask)})
		s := f.Status()
		if limit(f.Client) != time.Second || s.State != clientlib.StateStale || s.Reason != clientlib.ReasonUnsupported || s.Rejected == nil {
			t.Fatalf("status %+v", s)
		}
		if !strings.Contains(s.Message, "timeouts.connect") || !strings.Contains(s.Message, "weak") {
			t.Errorf("the message %q names neither field nor adapter", s.Message)
		}
		if p := f.notes.last.Policies; len(p) != 1 || p[0].State != report.PolicyRejected || p[0].Generation != 2 {
			t.Errorf("reported %+v", p)
		}
		f.feed.say(source.Update{Document: policy(t, 3, ask)})
		if s := f.Status(); limit(f.Client) != 2*time.Second || s.State != clientlib.StateReady || s.Rejected != nil {
			t.Errorf("with Report: limit %s, status %+v", limit(f.Client), s)
		}
		if u := f.notes.last.Upstreams; len(u) != 1 || len(u[0].Unsupported) != 1 || u[0].Unsupported[0].Field != "timeouts.connect" {
			t.Errorf("reported gaps %+v", u)
		}
	})
}

func TestAnAdapterThatComesLaterIsHeldToTheDocumentToo(t *testing.T) {
	doc := policy(t, 1, `,"onUnsupported":"Reject","timeouts":{"connect":"1s"}`)
	withClient(t, source.Update{Document: doc}, func(t *testing.T, f *fixture) {
		f.UseAdapter(weak())
		if s := f.Status(); s.State != clientlib.StateFallback || s.Rejected == nil || limit(f.Client) != -1 {
			t.Errorf("limit %s, status %+v", limit(f.Client), s)
		}
		f.UseAdapter(weak())
		if n := len(f.notes.last.Adapters); n != 1 {
			t.Errorf("%d adapters reported, want the one", n)
		}
	})
}

// oneShot is a source that ends once it was fed, as sources must not.
type oneShot struct {
	feed feed
	err  error
}

func (s oneShot) Run(ctx context.Context, sink func(source.Update)) error {
	select {
	case u := <-s.feed:
		sink(u)
	case <-ctx.Done():
		return nil
	}
	select {
	case u := <-s.feed:
		sink(u)
		return s.err
	case <-ctx.Done():
		return nil
	}
}

// A source that gives up while the program runs is not taken for one that is up to
// date.
func TestASourceThatEndsIsTold(t *testing.T) {
	for _, failure := range []error{nil, errors.New("it lost its way")} {
		synctest.Test(t, func(t *testing.T) {
			s := oneShot{make(feed, 1), failure}
			s.feed <- source.Update{Document: policy(t, 1, oneSecond), Delivery: source.DeliveryPoll}
			log := &strings.Builder{}
			client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(s), clientlib.WithReporter(nil),
				clientlib.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			s.feed.say(source.Update{Document: policy(t, 2, twoSeconds), Delivery: source.DeliveryPoll})
			synctest.Wait()
			status := client.Status()
			if limit(client) != 2*time.Second || status.State != clientlib.StateStale || status.Reason != source.ReasonSetUp || !strings.Contains(status.Message, "no change comes any more") {
				t.Errorf("limit %s, status %+v", limit(client), status)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 {
				t.Errorf("it was told %d times:\n%s", n, log)
			}
			if err := client.Close(); !errors.Is(err, failure) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// Case R30.
func TestARequiredPolicyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := make(feed, 1)
		f <- source.Update{Err: errors.New("nothing there"), Reason: source.ReasonNoDocument}
		start := time.Now()
		client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(f), clientlib.WithReporter(nil),
			clientlib.WithRequirePolicy(10*time.Second), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if client != nil || err == nil || time.Since(start) != 10*time.Second || !strings.Contains(err.Error(), "NoDocument") {
			t.Errorf("got %v, %v after %s", client, err, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := make(feed, 1)
		f <- source.Update{Err: errors.New("nothing there"), Reason: source.ReasonNoDocument}
		doc := policy(t, 1, oneSecond)
		time.AfterFunc(3*time.Second, func() { f <- source.Update{Document: doc} })
		client, err := clientlib.New(t.Context(), "checkout", clientlib.WithSource(f), clientlib.WithReporter(nil),
			clientlib.WithRequirePolicy(10*time.Second), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		if limit(client) != time.Second {
			t.Error("the policy that came in time is not in force")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestNewSaysWhatIsSetUpWrongly(t *testing.T) {
	for _, c := range []struct {
		name, client, want string
		opts               []clientlib.Option
	}{
		{"no name", "", "spec.clients", nil},
		{"a name that is too long", strings.Repeat("x", 254), "spec.clients", nil},
		{"no fallback document", "c", "WithFallback: the document is nil", []clientlib.Option{clientlib.WithFallback(nil)}},
		{"an invalid fallback document", "c", "WithFallback: schema", []clientlib.Option{clientlib.WithFallback(&document.Document{})}},
		{"no time to wait", "c", "WithRequirePolicy", []clientlib.Option{clientlib.WithRequirePolicy(0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := clientlib.New(t.Context(), c.client, c.opts...)
			if client != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want an error with %q", client, err, c.want)
			}
		})
	}
}

func TestTheDirectoryComesFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TIMEOUTS_DIR", dir)
	data, err := document.Render(policy(t, 7, oneSecond))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := clientlib.New(t.Context(), "checkout", clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if limit(client) != time.Second || client.Name() != "checkout" {
		t.Errorf("limit %s, status %+v", limit(client), client.Status())
	}
}

func TestTheHandlerServesTheStatus(t *testing.T) {
	good := policy(t, 1, oneSecond)
	withClient(t, source.Update{Document: good}, func(t *testing.T, f *fixture) {
		get := func(target string) (int, clientlib.Status) {
			w := httptest.NewRecorder()
			f.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
			var s clientlib.Status
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
				t.Fatalf("%s: %v", w.Body, err)
			}
			return w.Code, s
		}
		if code, s := get("/"); code != http.StatusOK || s.Revision != good.Revision || s.State != clientlib.StateReady {
			t.Errorf("%d %+v", code, s)
		}
		f.feed.say(source.Update{Document: good, Err: errors.New("gone"), Reason: source.ReasonSourceGone})
		if code, _ := get("/"); code != http.StatusOK {
			t.Errorf("a stale client answers %d", code)
		}
		if code, s := get("/?strict"); code != http.StatusServiceUnavailable || s.Reason != source.ReasonSourceGone {
			t.Errorf("strict: %d %+v", code, s)
		}
	})
}
