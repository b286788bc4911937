package adaptertest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// Adapters that are wrong in one thing: net/http's, with something around or
// underneath it that spoils that.

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// spoiled puts something around the adapter and underneath it; nil for nothing.
func spoiled(around, underneath func(http.RoundTripper) http.RoundTripper) Adapter {
	return lying(func(a *Adapter) {
		a.Open = func(t testing.TB, c *clientlib.Client, s Setup) Peer {
			return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper {
				if underneath != nil {
					base = underneath(base)
				}
				base = nethttp.NewTransport(c, base)
				if around != nil {
					base = around(base)
				}
				return base
			})
		}
	})
}

// changing changes each response.
func changing(change func(*http.Response) error) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil {
				err = change(resp)
			}
			if err != nil {
				return nil, err
			}
			return resp, nil
		})
	}
}

// within changes each request, which is a copy.
func within(change func(*http.Request) *http.Request) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			return next.RoundTrip(change(req.Clone(req.Context())))
		})
	}
}

// reader is a body that is read in another way.
type reader struct {
	io.ReadCloser
	read func(p []byte) (int, error)
}

func (r reader) Read(p []byte) (int, error) { return r.read(p) }

func TestABodyThatBrokeOffCannotBeHidden(t *testing.T) {
	t.Parallel()
	const check = "a body that breaks off is an error, is told of, and is not asked for again"
	hiding := changing(func(resp *http.Response) error {
		body := resp.Body
		resp.Body = reader{body, func(p []byte) (int, error) {
			n, err := body.Read(p)
			if err != nil {
				err = io.EOF
			}
			return n, err
		}}
		return nil
	})
	caught(t, spoiled(hiding, nil), check, "want an error: half of the body is missing")
	reading := changing(func(resp *http.Response) error {
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return err
	})
	caught(t, spoiled(nil, reading), check, "3 requests reached the server, want 1: after the headers there is no other attempt")
}

func TestTheIdleGapHasToBeAGap(t *testing.T) {
	t.Parallel()
	// One that waits for all of the body sees no gaps in it.
	whole := changing(func(resp *http.Response) error {
		body := resp.Body
		resp.Body = reader{body, func(p []byte) (int, error) {
			n, err := io.ReadFull(body, p)
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return n, err
		}}
		return nil
	})
	caught(t, spoiled(nil, whole), "a body that goes on is not idle, however long it takes", "the call ended with ReadTimeout")
	// One that returns to look around takes that for a sign of life.
	restless := changing(func(resp *http.Response) error {
		body := resp.Body
		pieces := make(chan []byte)
		go func() {
			defer close(pieces)
			for {
				piece := make([]byte, 64)
				n, err := body.Read(piece)
				pieces <- piece[:n]
				if err != nil {
					return
				}
			}
		}()
		resp.Body = reader{body, func(p []byte) (int, error) {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			select {
			case piece, more := <-pieces:
				if !more {
					return 0, io.EOF
				}
				return copy(p, piece), nil
			case <-timer.C:
				return 0, nil
			}
		}}
		return nil
	})
	silent := spoiled(nil, restless)
	silent.hold = 2 * ample
	caught(t, silent, "a body that falls silent in its middle is cut", "the call ended with success")
}

func TestWhatAServerIsToldHasToBeLessTheReserve(t *testing.T) {
	t.Parallel()
	const check = "what is kept back is kept back once"
	adding := func(ms int) func(http.RoundTripper) http.RoundTripper {
		return within(func(req *http.Request) *http.Request {
			if left, err := strconv.Atoi(req.Header.Get(DeadlineHeader)); err == nil {
				req.Header.Set(DeadlineHeader, strconv.Itoa(left+ms))
			}
			return req
		})
	}
	caught(t, spoiled(nil, adding(4000)), check, "of a total of 10s less 4s a request says that")
	caught(t, spoiled(nil, adding(-4000)), check, "of a budget of 10s less 4s a request says that")
	generous := within(func(req *http.Request) *http.Request { return req.WithContext(deadline.Detach(req.Context())) })
	caught(t, spoiled(generous, nil), "a budget that the reserve uses up costs no request", "1 requests reached the server, want 0")
}

// mute is a peer of a protocol that tells a deadline of its own and nothing else.
type mute struct{ Peer }

func (m mute) Seen() []Seen {
	seen := m.Peer.Seen()
	for i := range seen {
		seen[i].Header = ""
	}
	return seen
}

func TestTheHeaderThatThePolicyNamesHasToBeThere(t *testing.T) {
	t.Parallel()
	const check = "the header that the policy names says what is left, in place of what the caller passes on"
	silent := lying(func(a *Adapter) {
		open := a.Open
		a.Open = func(t testing.TB, c *clientlib.Client, s Setup) Peer { return mute{open(t, c, s)} }
	})
	caught(t, silent, check, `request 1 has "" in the header that the policy names`)
	if got := findings(t, silent, "capability DeadlineHeader"); got != "" {
		t.Errorf("what the protocol tells of itself is there, and it found: %s", got)
	}
	twofold := within(func(req *http.Request) *http.Request { req.Header.Add(DeadlineHeader, aDay); return req })
	caught(t, spoiled(nil, twofold), check, ", "+aDay+`" in the header that the policy names`)
	stripping := within(func(req *http.Request) *http.Request { req.Header.Del(DeadlineHeader); return req })
	caught(t, spoiled(stripping, nil), check, `the caller's own header became ""`)
}

func TestACapHasToHold(t *testing.T) {
	t.Parallel()
	a := spoiled(within(func(req *http.Request) *http.Request {
		return req.WithContext(clientlib.WithCall(req.Context(), clientlib.Cap(0)))
	}), nil)
	caught(t, a, "capability PerCallOptions", `["Cap"] have no effect`)
	a.hold = 2 * ample
	caught(t, a, "a cap of the call site covers the body", "the call ended with success")
}

func TestAProbeThatGoesOnUnseenIsFound(t *testing.T) {
	t.Parallel()
	a := spoiled(func(next http.RoundTripper) http.RoundTripper { return soft{next} }, nil)
	a.hold = time.Second
	caught(t, a, "a probe that its caller leaves gives its place back", "it still has the place of the probe")
}

func TestGoroutinesThatAreLeftBehindAreFound(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	a := spoiled(within(func(req *http.Request) *http.Request { go func() { <-done }(); return req }), nil)
	caught(t, a, "calls leave no goroutine behind, however they end", "goroutines behind that they started")
}

// crooked is an adapter of net/http of its own, for answers in one piece, with two
// mistakes to choose from.
type crooked struct {
	engine *engine.Engine
	next   http.RoundTripper
	// eachAttempt is a call of its own.
	eachAttempt bool
	// counts what a policy in mode Shadow would have cut.
	counts func(*engine.Comparison, *engine.Scope, time.Time)
}

func (c crooked) RoundTrip(req *http.Request) (*http.Response, error) {
	name, port, _ := document.SplitHostPort(req.URL.Host)
	policy := c.engine.Snapshot().Lookup(name, port, document.Call{Method: req.Method})
	call := &engine.Call{}
	begin := func() error { return call.Begin(req.Context(), c.engine, policy, "nethttp", req.Method) }
	if err := begin(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		scope := new(engine.Scope)
		_, now := call.BeginAttempt()
		scope.Open(req.Context(), call, now)
		resp, err := c.next.RoundTrip(req.WithContext(scope))
		if c.counts != nil {
			c.counts(&engine.Comparison{}, scope, now)
		}
		out := engine.Outcome{Status: engine.NoStatus, Kind: failure.Disconnected, Repeatable: true, Replayable: true}
		if err == nil {
			out.Status, out.OK, out.Kind = resp.StatusCode, resp.StatusCode < 400, failure.Status
			out.ServerFault = out.Status >= 500
			out.RetryStatus = policy.RetriesStatus(out.Status)
		}
		decision := call.Decide(out)
		scope.Finish()
		if !decision.Retry || attempt == policy.MaxAttempts {
			call.Settle(out, engine.Attribution{}, decision)
			if err != nil {
				return nil, call.Failure(out, engine.Attribution{}, decision, err)
			}
			return resp, nil
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		if c.eachAttempt {
			call.Settle(out, engine.Attribution{}, decision)
			call = &engine.Call{}
			if err := begin(); err != nil {
				return nil, err
			}
		}
	}
}

// crookedly opens peers that are called by crooked.
func crookedly(mistake crooked) Adapter {
	return lying(func(a *Adapter) {
		a.Open = func(t testing.TB, c *clientlib.Client, s Setup) Peer {
			return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper {
				mistake.engine, mistake.next = c.Engine(), base
				return mistake
			})
		}
	})
}

func TestAnAttemptThatFillsTheRetryBudgetIsFound(t *testing.T) {
	t.Parallel()
	const check = "calls fill the retry budget, each once, whatever its attempts"
	if got := findings(t, crookedly(crooked{}), check); got != "" {
		t.Fatalf("without the mistake it found: %s", got)
	}
	caught(t, crookedly(crooked{eachAttempt: true}), check, "want 1: a repetition takes a token, and a call brings half of one")
}

func TestShadowHasToCountEachLimit(t *testing.T) {
	t.Parallel()
	only := func(a Adapter) Adapter {
		for _, name := range []capability.Name{capability.DeadlineCoversBody, capability.TimeoutBodyIdle, capability.TimeoutConnect, capability.TimeoutResponseHeader} {
			delete(a.Record.Support, name)
		}
		return a
	}
	const check = "capability Shadow"
	all := crooked{counts: func(c *engine.Comparison, s *engine.Scope, began time.Time) { c.Headers(s, began) }}
	if got := findings(t, only(crookedly(all)), check); got != "" {
		t.Fatalf("without the mistake it found: %s", got)
	}
	caught(t, crookedly(all), check, `missed of ["response_header (a server that Waits)" "body_idle (a server that Drips)" "total (a server that Drips)" "connect (a server that Stalls)"]`)
	totalOnly := crooked{counts: func(c *engine.Comparison, s *engine.Scope, _ time.Time) { c.Total(s) }}
	caught(t, only(crookedly(totalOnly)), check, `missed of ["attempt (a server that Waits)"]`)
	twice := crooked{counts: func(c *engine.Comparison, s *engine.Scope, began time.Time) {
		c.Headers(s, began)
		(&engine.Comparison{}).Total(s)
	}}
	caught(t, only(crookedly(twice)), check, "it was counted 2 times that total would have cut one call")
}

// A crooked adapter forgets the call that it was making.
func TestACallThatPanickedHasToEnd(t *testing.T) {
	t.Parallel()
	const check = "a panic that somebody recovers from ends its call"
	caught(t, crookedly(crooked{}), check, "that one still has the place of the probe")
}
