package deadline_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// rig is a client under a document, and a server that keeps what it was sent.
type rig struct {
	t        *testing.T
	client   *clientlib.Client
	http     *http.Client
	network  *clienttest.Network
	start    time.Time
	mu       sync.Mutex
	arrivals []arrival
}

// arrival is a request as the server saw it.
type arrival struct {
	host   string
	header http.Header
	at     time.Duration // since the start of the test
	now    time.Time
}

// inFakeTime runs a test in a bubble and checks that nothing is left running.
func inFakeTime(t *testing.T, doc string, handler http.HandlerFunc, test func(r *rig), opts ...clientlib.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, start: time.Now()}
		r.network = clienttest.NewNetwork(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			r.mu.Lock()
			now := time.Now()
			r.arrivals = append(r.arrivals, arrival{req.Host, req.Header.Clone(), now.Sub(r.start), now})
			r.mu.Unlock()
			handler(w, req)
		}))
		r.client = newClient(t, doc, opts...)
		r.http = &http.Client{Transport: nethttp.NewTransport(r.client, r.network.Transport())}
		test(r)
		r.http.CloseIdleConnections()
		if err := errors.Join(r.client.Close(), r.network.Close()); err != nil {
			t.Error(err)
		}
	})
}

func newClient(t *testing.T, doc string, opts ...clientlib.Option) *clientlib.Client {
	t.Helper()
	parsed, err := document.Parse([]byte(`{"schema":1,"upstreams":[` + doc + `]}`))
	if err != nil {
		t.Fatalf("document of the test: %v", err)
	}
	opts = append(opts, clientlib.WithSource(source.Static(parsed)), clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	client, err := clientlib.New(t.Context(), "checkout", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// get makes a call and reads its body; header may be nil.
func (r *rig) get(ctx context.Context, url string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// told lists what the header of each request said, "-" for none.
func (r *rig) told(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []string
	for _, a := range r.arrivals {
		values := a.header.Values(name)
		if len(values) == 0 {
			values = []string{"-"}
		}
		told = append(told, strings.Join(values, ","))
	}
	return strings.Join(told, " ")
}

const ordersTold = `{"name":"orders","hosts":["orders"],"timeouts":{"total":"5s"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}`

func ok(http.ResponseWriter, *http.Request) {}

// What is left is told anew on each attempt: an attempt that took 300ms, a
// backoff of 100ms, one that took 200ms and a backoff of 200ms are gone.
func TestAfterTwoAttemptsAndABackoffTheHeaderSaysWhatIsGenuinelyLeft(t *testing.T) {
	took := []time.Duration{300 * time.Millisecond, 200 * time.Millisecond, 0}
	var n int
	slow := func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(took[n])
		if n++; n < len(took) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	doc := ordersTold + `,"retry":{"maxAttempts":3,"backoff":{"initial":"100ms","jitter":"None"}}}`
	for name, c := range map[string]struct {
		ctx  func(context.Context) context.Context
		want string
	}{
		"total":  {func(ctx context.Context) context.Context { return ctx }, "4980 4580 4180"},
		"budget": {func(ctx context.Context) context.Context { return deadline.With(ctx, 2*time.Second) }, "1980 1580 1180"},
	} {
		n = 0
		inFakeTime(t, doc, slow, func(r *rig) {
			if err := r.get(c.ctx(r.t.Context()), "http://orders/", nil); err != nil {
				t.Fatal(err)
			}
			if told := r.told("X-Deadline-Ms"); told != c.want {
				t.Errorf("%s: told %s, want %s", name, told, c.want)
			}
		})
	}
}

// A proxy passes on the headers that it got. What an earlier service was told is
// replaced, in whatever spelling, and never goes to a host that no policy gives
// a header.
func TestACopyOfTheHeaderInTheRequestIsReplaced(t *testing.T) {
	const elsewhere = `{"name":"plain","hosts":["plain"]},{"name":"shadow","hosts":["shadow"],"mode":"Shadow","deadline":{"header":"X-Deadline-Ms"}}`
	redirect := func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}
	budget := func(ctx context.Context) context.Context { return deadline.With(ctx, time.Second) }
	copies := func() http.Header { return http.Header{"X-Deadline-Ms": {"99999"}} }
	for _, c := range []struct {
		name, doc, url string
		ctx            func(context.Context) context.Context
		header         http.Header
		want           string
	}{
		{"replaced", ordersTold + "}", "http://orders/", budget, copies(), "980"},
		{"two values", ordersTold + "}", "http://orders/", budget, http.Header{"X-Deadline-Ms": {"99999", "1"}}, "980"},
		{"spellings that are not canonical", ordersTold + "}", "http://orders/", budget, http.Header{"x-deadline-ms": {"99999"}, "X-DEADLINE-MS": {"1"}}, "980"},
		{"left out where nothing limits the call", `{"name":"orders","hosts":["orders"],"deadline":{"header":"X-Deadline-Ms"}}`, "http://orders/", nil, copies(), "-"},
		{"a policy without a header leaves it alone", elsewhere, "http://plain/", budget, copies(), "99999"},
		{"no policy leaves it alone", elsewhere, "http://unnamed/", budget, copies(), "99999"},
		{"mode Shadow leaves it alone", elsewhere, "http://shadow/", budget, copies(), "99999"},
		{"a redirect to a host that no policy names", ordersTold + "}", "http://orders/?to=http://unnamed/", budget, copies(), "980 -"},
		{"a redirect without a copy", ordersTold + "}", "http://orders/?to=http://unnamed/", budget, nil, "980 -"},
		{"a redirect to a policy without a header", ordersTold + "}," + elsewhere, "http://orders/?to=http://plain/", budget, copies(), "980 -"},
		{"a redirect to the same host", ordersTold + "}", "http://orders/?to=/next", budget, copies(), "980 980"},
		{"a redirect from a host that no policy names", ordersTold + "}", "http://unnamed/?to=http://orders/", budget, nil, "- 980"},
	} {
		if c.ctx == nil {
			c.ctx = func(ctx context.Context) context.Context { return ctx }
		}
		inFakeTime(t, c.doc, redirect, func(r *rig) {
			before := c.header.Clone()
			if err := r.get(c.ctx(r.t.Context()), c.url, c.header); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if told := r.told("X-Deadline-Ms"); told != c.want {
				t.Errorf("%s: told %s, want %s", c.name, told, c.want)
			}
			for key, values := range before {
				if !slices.Equal(c.header[key], values) {
					t.Errorf("%s: the caller's own header was changed: %v", c.name, c.header)
				}
			}
		})
	}
}

// A budget that is spent costs no connection, also where no policy names the host.
func TestASpentBudgetCostsNoConnectionAnywhere(t *testing.T) {
	spent := map[string]func(context.Context) context.Context{
		"budget":  func(ctx context.Context) context.Context { return deadline.With(ctx, 0) },
		"source":  func(ctx context.Context) context.Context { return deadline.WithSource(ctx, &lease{expired: true}) },
		"reserve": func(ctx context.Context) context.Context { return deadline.With(ctx, 20*time.Millisecond) },
	}
	for name, layer := range spent {
		for _, host := range []string{"orders", "unnamed"} {
			if name == "reserve" && host == "unnamed" {
				continue // no policy, no reserve
			}
			inFakeTime(t, ordersTold+"}", ok, func(r *rig) {
				err := r.get(layer(r.t.Context()), "http://"+host+"/", nil)
				var e *clientlib.Error
				if !errors.As(err, &e) || e.Kind != failure.TotalTimeout || e.Source != failure.SourceBudget || e.Attempts != 0 || r.network.Dials() != 0 || time.Since(r.start) != 0 {
					t.Errorf("%s, %s: %v, %d connections", name, host, err, r.network.Dials())
				}
			})
		}
	}
}

// The client's own source and a cap hold on every host, and in a detached block.
func TestSourceOfAClientAndCapOfACallHoldEverywhere(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, host := range []string{"orders", "unnamed"} {
		for name, c := range map[string]struct {
			opts   []clientlib.Option
			ctx    func(context.Context) context.Context
			want   time.Duration
			source failure.Source
		}{
			"source": {[]clientlib.Option{clientlib.WithDeadlineSource(deadline.Fixed{End: bubbleStart.Add(time.Second)})}, deadline.Detach, time.Second, failure.SourceBudget},
			"cap": {nil, func(ctx context.Context) context.Context {
				return clientlib.WithCall(ctx, clientlib.Cap(700*time.Millisecond))
			}, 700 * time.Millisecond, failure.SourceCaller},
		} {
			inFakeTime(t, `{"name":"orders","hosts":["orders"],"timeouts":{"total":"5s"}}`, hang, func(r *rig) {
				err := r.get(c.ctx(r.t.Context()), "http://"+host+"/", nil)
				var e *clientlib.Error
				if !errors.As(err, &e) || e.Kind != failure.TotalTimeout || e.Source != c.source || time.Since(r.start) != c.want {
					t.Errorf("%s, %s: %v after %s", host, name, err, time.Since(r.start))
				}
			}, c.opts...)
		}
	}
}

// bubbleStart is when the time of every bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestACapThatIsTakenBackIsNone(t *testing.T) {
	inFakeTime(t, ordersTold+"}", ok, func(r *rig) {
		capped := clientlib.WithCall(r.t.Context(), clientlib.Cap(-time.Second))
		if err := r.get(capped, "http://orders/", nil); err != nil {
			t.Error(err)
		}
		if told := r.told("X-Deadline-Ms"); told != "4980" {
			t.Errorf("told %s", told)
		}
	})
}

// Work that was detached goes on after the request that began it has ended.
func TestDetachedWorkGoesOnAfterTheRequestEnded(t *testing.T) {
	slow := func(_ http.ResponseWriter, r *http.Request) { <-time.After(3 * time.Second) }
	inFakeTime(t, `{"name":"orders","hosts":["orders"],"timeouts":{"total":"10s"}}`, slow, func(r *rig) {
		detached := make(chan error, 1)
		handler := deadline.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			go func() { detached <- r.get(deadline.Detach(req.Context()), "http://orders/", nil) }()
			if err := r.get(req.Context(), "http://orders/", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the request's own call: %v", err)
			}
		}), deadline.TrustEveryone(), deadline.EndContext())
		server := clienttest.NewNetwork(handler)
		req, _ := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://checkout/", nil)
		req.Header.Set("X-Deadline-Ms", "1000")
		front := server.Transport()
		resp, err := front.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if took := time.Since(r.start); took != time.Second {
			t.Errorf("the request ended after %s", took)
		}
		if err := <-detached; err != nil || time.Since(r.start) != 3*time.Second {
			t.Errorf("the detached call: %v after %s", err, time.Since(r.start))
		}
		front.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Where the wait for a connection is watched, since the policy limits it, it is
// taken off what the peer is told.
func TestTheWaitForAConnectionIsNotThePeersToSpend(t *testing.T) {
	for limit, want := range map[string]string{`,"connect":"500ms"`: "4780 4980", "": "4980 4980"} {
		doc := `{"name":"orders","hosts":["orders"],"timeouts":{"total":"5s"` + limit + `},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}}`
		inFakeTime(t, doc, ok, func(r *rig) {
			base := r.network.Transport()
			base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				<-time.After(200 * time.Millisecond)
				return r.network.Dial(ctx, network, addr)
			}
			r.http.Transport = nethttp.NewTransport(r.client, base)
			for range 2 { // the second time there is a connection
				if err := r.get(r.t.Context(), "http://orders/", nil); err != nil {
					t.Fatal(err)
				}
			}
			if told := r.told("X-Deadline-Ms"); told != want {
				t.Errorf("with %q: told %s, want %s", limit, told, want)
			}
		})
	}
}

// The same over real connections, with TLS and HTTP/2, for the race detector.
func TestWhatThePeerIsToldIsWrittenByNobodyElseMeanwhile(t *testing.T) {
	told := make(chan string, 200)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Proto + " " + r.Header.Get("X-Deadline-Ms")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	host := server.Listener.Addr().String()
	client := newClient(t, `{"name":"orders","hosts":["`+host+`"],"timeouts":{"total":"20s","connect":"10s"},"deadline":{"header":"X-Deadline-Ms","reserve":"20ms"}}`)
	defer client.Close()
	h := &http.Client{Transport: nethttp.NewTransport(client, server.Client().Transport)}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 10 {
				resp, err := h.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}
		})
	}
	callers.Wait()
	for range 80 {
		proto, left, _ := strings.Cut(<-told, " ")
		if ms, err := strconv.Atoi(left); err != nil || ms < 1 || ms > 19980 || proto != "HTTP/2.0" {
			t.Errorf("told %q over %s", left, proto)
		}
	}
}
