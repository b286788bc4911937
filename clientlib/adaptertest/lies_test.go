package adaptertest

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// lying is net/http's adapter with a record that was tampered with.
func lying(tamper func(*Adapter)) Adapter {
	a := netHTTP()
	a.Record.Support = maps.Clone(a.Record.Support)
	a.Lacks = map[Feature]string{}
	a.hold = heldAbsent
	tamper(&a)
	return a
}

// findings runs the checks of a name and returns all they found.
func findings(t *testing.T, a Adapter, name string) string {
	t.Helper()
	var found []string
	ran := false
	for _, c := range checks(&a) {
		if c.name == name {
			ran = true
			found = append(found, c.find(t, &a)...)
		}
	}
	if !ran {
		t.Fatalf("there is no check %q", name)
	}
	return strings.Join(found, "\n")
}

// caught fails the test unless a check found what it should. On a machine that is busy
// it may take a second look.
func caught(t *testing.T, a Adapter, check, finding string) {
	t.Helper()
	got := findings(t, a, check)
	for looks := 1; looks < 3 && !strings.Contains(got, finding); looks++ {
		got = findings(t, a, check)
	}
	if !strings.Contains(got, finding) {
		t.Errorf("check %q found:\n%s\nwant a finding with %q", check, got, finding)
	}
}

func TestACapabilityThatIsThereCannotBeDeclaredAbsent(t *testing.T) {
	t.Parallel()
	for _, name := range capability.Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			a := lying(func(a *Adapter) { delete(a.Record.Support, name) })
			caught(t, a, "capability "+string(name), string(name)+" is declared Absent, and a call shows")
		})
	}
}

// bare is an adapter that enforces nothing: its calls never meet the engine.
func bare(t testing.TB, _ *clientlib.Client, s Setup) Peer {
	return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper { return base })
}

func TestACapabilityThatIsMissingCannotBeDeclared(t *testing.T) {
	t.Parallel()
	for _, name := range capability.Names() {
		if name == capability.DeadlineHard || name == capability.RetryOwned || name == capability.HTTP2 {
			// The first two show in calls that a limit ended or that were repeated.
			// HTTP2 is the library's, see the next test.
			continue
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			a := lying(func(a *Adapter) { a.Open = bare })
			if got := findings(t, a, "capability "+string(name)); !strings.Contains(got, " is declared ") {
				t.Errorf("found:\n%s", got)
			}
		})
	}
}

// soft hands out responses of which it hides that they were cut, as a library
// does that returns while its work goes on.
type soft struct{ http.RoundTripper }

func (s soft) RoundTrip(req *http.Request) (*http.Response, error) {
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := s.RoundTripper.RoundTrip(req.WithContext(withoutCancel{req.Context()}))
		done <- result{resp, err}
	}()
	select {
	case r := <-done:
		return r.resp, r.err
	case <-req.Context().Done():
		go func() {
			if r := <-done; r.err == nil {
				_ = r.resp.Body.Close()
			}
		}()
		return nil, req.Context().Err()
	}
}

func TestASoftDeadlineCannotBeDeclaredHard(t *testing.T) {
	t.Parallel()
	a := lying(func(a *Adapter) {
		a.Open = func(t testing.TB, c *clientlib.Client, s Setup) Peer {
			return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper { return nethttp.NewTransport(c, soft{base}) })
		}
	})
	caught(t, a, "capability DeadlineHard", "DeadlineHard is declared Native, and a call shows that it is missing")
	a.Record.Support[capability.DeadlineHard] = capability.Support{}
	if got := findings(t, a, "capability DeadlineHard"); got != "" {
		t.Errorf("declared Absent, which is true, it found: %s", got)
	}
}

func TestConnectionsThatAreNotSharedAreNotHTTP2(t *testing.T) {
	t.Parallel()
	a := lying(func(a *Adapter) {
		open := a.Open
		a.Open = func(t testing.TB, c *clientlib.Client, _ Setup) Peer { return open(t, c, Setup{}) }
	})
	caught(t, a, "capability HTTP2", "HTTP2 is declared Native, and a call shows that it is missing")
}

// twice makes each failed request once more, behind the engine's back.
type twice struct{ http.RoundTripper }

func (w twice) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode >= 500 {
		_ = resp.Body.Close()
		return w.RoundTripper.RoundTrip(req)
	}
	return resp, err
}

func TestRepetitionsOfTheLibraryAreFound(t *testing.T) {
	t.Parallel()
	a := lying(func(a *Adapter) {
		a.Open = func(t testing.TB, c *clientlib.Client, s Setup) Peer {
			return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper { return nethttp.NewTransport(c, twice{base}) })
		}
	})
	caught(t, a, "capability RetryOwned", "6 requests where 3 were asked for")
	caught(t, a, "without a retry rule nothing is repeated", "2 requests reached the server, want 1")
	// net/http's own few repetitions make it Degraded, neither more nor less.
	for _, level := range []capability.Level{capability.Native, capability.Emulated} {
		a := lying(func(a *Adapter) { a.Record.Support[capability.RetryOwned] = capability.Support{Level: level} })
		caught(t, a, "capability RetryOwned", "repetitions that nobody asked for")
	}
}

func TestADegradedCapabilityHasToShowInWhat(t *testing.T) {
	t.Parallel()
	degrade := func(a *Adapter) {
		a.Record.Support[capability.TimeoutTotal] = capability.Support{Level: capability.Degraded, Note: "late, it says"}
	}
	caught(t, lying(degrade), "capability TimeoutTotal", "is declared Degraded, and a call shows all of it")
	shown := false
	a := lying(func(a *Adapter) {
		degrade(a)
		a.Shortfalls = map[capability.Name]func(testing.TB){capability.TimeoutTotal: func(testing.TB) { shown = true }}
	})
	if got := findings(t, a, "capability TimeoutTotal"); got != "" || !shown {
		t.Errorf("with a proof of the shortfall (run: %t) it found: %s", shown, got)
	}
	a.Record.Support[capability.TimeoutTotal] = capability.Support{Level: capability.Native}
	caught(t, a, "the record is complete", "proof that TimeoutTotal falls short, which is declared Native")
}

func TestKindsThatAreEmittedHaveToBeDeclared(t *testing.T) {
	t.Parallel()
	for _, kind := range capability.NetHTTP().Emits.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			a := lying(func(a *Adapter) { a.Record.Emits &^= failure.NewSet(kind) })
			caught(t, a, "kind "+kind.String(), "the record does not emit "+kind.String())
		})
	}
}

func TestKindsThatAreNeverEmittedCannotBeDeclared(t *testing.T) {
	t.Parallel()
	emits := lying(func(a *Adapter) {
		a.Record.Emits |= failure.NewSet(failure.WriteTimeout)
		a.hold = held
	})
	caught(t, emits, "kind WriteTimeout", "the record emits WriteTimeout, and what provokes it ended with: AttemptTimeout")
	collapses := lying(func(a *Adapter) {
		a.Record.Collapse = map[failure.Kind]failure.Kind{failure.WriteTimeout: failure.ReadTimeout}
		a.hold = held
	})
	caught(t, collapses, "kind WriteTimeout", "collapse into ReadTimeout, and what provokes it ended with: AttemptTimeout")
	// What provokes it does end so, but net/http's adapter does not tell the engine.
	collapses.Record.Collapse[failure.WriteTimeout] = failure.AttemptTimeout
	caught(t, collapses, "kind WriteTimeout", "a policy that lists WriteTimeout did not repeat it: set Outcome.Covers")
}

func TestWhatThePeerLacksProvesNothing(t *testing.T) {
	t.Parallel()
	a := lying(func(a *Adapter) { a.Lacks[Redirects] = "nobody wrote it"; a.Lacks[BadBody] = "nobody wrote it" })
	caught(t, a, "capability RedirectsShareDeadline", "nothing shows it: the peer lacks Redirects (nobody wrote it)")
	caught(t, a, "kind BodyError", "the peer lacks what provokes it")
	delete(a.Record.Support, capability.RedirectsShareDeadline)
	if got := findings(t, a, "capability RedirectsShareDeadline"); got != "" {
		t.Errorf("declared Absent it found: %s", got)
	}
}

func TestEventsAndErrorsHaveToBeTheAdaptersOwn(t *testing.T) {
	t.Parallel()
	named := lying(func(a *Adapter) { a.Record.Adapter = "other" })
	caught(t, named, "kind Status", `an event has the adapter "nethttp", the record "other"`)
	foreign := lying(func(a *Adapter) { a.Family = func(error) error { return errors.New("of somebody else's") } })
	caught(t, foreign, "kind TotalTimeout", "is not of the library's family: of somebody else's")
	silent := lying(func(a *Adapter) { a.Open = bare })
	caught(t, silent, "kind Status", "1 calls were made, 0 told of as started and 0 as done")
	caught(t, silent, "kind ConnectError", "is not a *failure.Error too")
}

// withoutCancel keeps the values of a context only.
type withoutCancel struct{ values interface{ Value(any) any } }

func (withoutCancel) Deadline() (time.Time, bool) { return time.Time{}, false }
func (withoutCancel) Done() <-chan struct{}       { return nil }
func (withoutCancel) Err() error                  { return nil }
func (c withoutCancel) Value(key any) any         { return c.values.Value(key) }
