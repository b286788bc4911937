package report

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// advance lets the fake time of a synctest bubble pass, and everything that is
// due by then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fakeServer answers as an API server would, without a network, so that it
// works in a synctest bubble. The zero answer is 200.
type fakeServer struct {
	mu       sync.Mutex
	answer   func(call) (status int, header http.Header, err error)
	calls    []call
	inFlight chan struct{} // if set, requests block on it or on their context
}

type call struct {
	at     time.Time
	method string
	url    string
	header http.Header
	body   string
}

func (f *fakeServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	c := call{at: time.Now(), method: req.Method, url: req.URL.String(), header: req.Header.Clone(), body: string(body)}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	answer, inFlight := f.answer, f.inFlight
	f.mu.Unlock()
	if inFlight != nil {
		select {
		case <-inFlight:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	status, header := http.StatusOK, http.Header{}
	if answer != nil {
		var err error
		if status, header, err = answer(c); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(`{"kind":"Status","message":"answer %d"}`, status)
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
}

func (f *fakeServer) answers(fn func(call) (int, http.Header, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = fn
}

func (f *fakeServer) seen() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// setup writes a token and returns options for a pod of this test.
func setup(t *testing.T, f *fakeServer) Options {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "secret-1\n")
	return Options{
		Pod:       Pod{Name: "checkout-7d9", Namespace: "shop", UID: "uid-" + t.Name()},
		Container: "app",
		Server:    "https://10.0.0.1:443/",
		TokenFile: token,
		CAFile:    filepath.Join(t.TempDir(), "ca.crt"),
		Transport: f,
		Rand:      func() float64 { return 0.5 },
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newReporter(t *testing.T, o Options) *Reporter {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func checkout(revision string) Client {
	return Client{
		Delivery: "Mount", State: StateReady, Revision: revision,
		Policies: []Policy{{Namespace: "shop", Name: "checkout", UID: "p-1", Generation: 3, Revision: revision, State: PolicyApplied}},
		Adapters: []Adapter{{Name: "nethttp", Capabilities: map[string]string{"TimeoutTotal": "Emulated"}, Emits: []string{"ConnectTimeout"}}},
	}
}

func TestReportIsOneServerSideApplyOfTheWholeObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		o := setup(t, f)
		r := newReporter(t, o)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Minute)

		calls := f.seen()
		if len(calls) != 1 {
			t.Fatalf("%d requests, want 1", len(calls))
		}
		c := calls[0]
		wantURL := "https://10.0.0.1:443/apis/timeout-operator.dev/v1alpha1/namespaces/shop/clientreports/checkout-7d9?fieldManager=timeout-clientlib%2Fapp&force=true"
		if c.method != http.MethodPatch || c.url != wantURL {
			t.Errorf("request is %s %s,\nwant PATCH %s", c.method, c.url, wantURL)
		}
		for name, want := range map[string]string{
			"Authorization": "Bearer secret-1", "Content-Type": "application/apply-patch+yaml", "Accept": "application/json",
		} {
			if got := c.header.Get(name); got != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
		want := `{"apiVersion":"timeout-operator.dev/v1alpha1","kind":"ClientReport",` +
			`"metadata":{"name":"checkout-7d9","namespace":"shop","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"checkout-7d9","uid":"` + o.Pod.UID + `"}]},` +
			`"library":{"name":"clientlib","version":"` + Version + `"},` +
			`"clients":[{"name":"checkout","delivery":"Mount","state":"Ready","revision":"sha256:aa",` +
			`"policies":[{"namespace":"shop","name":"checkout","uid":"p-1","generation":3,"revision":"sha256:aa","state":"Applied"}],` +
			`"adapters":[{"name":"nethttp","capabilities":{"TimeoutTotal":"Emulated"},"emits":["ConnectTimeout"]}]}]}`
		if c.body != want {
			t.Errorf("body is\n%s\nwant\n%s", c.body, want)
		}
		if r.Err() != nil {
			t.Errorf("Err is %v", r.Err())
		}
	})
}

func TestNothingIsWrittenBeforeAClientSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		newReporter(t, setup(t, f))
		advance(time.Hour)
		if n := len(f.seen()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}

func TestUnchangedContentIsNeverWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		r := newReporter(t, setup(t, f))
		for range 100 {
			r.Update("checkout", checkout("sha256:aa"))
			advance(time.Minute)
		}
		if n := len(f.seen()); n != 1 {
			t.Errorf("%d requests in 100 minutes, want 1", n)
		}
	})
}

func TestChangeThatIsTakenBackBeforeItIsDueIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		r := newReporter(t, setup(t, f))
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Minute)
		r.Update("checkout", checkout("sha256:bb"))
		advance(time.Second)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Hour)
		if n := len(f.seen()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestPacing(t *testing.T) {
	adapter := func(c Client, name string) Client {
		c.Adapters = append(slices.Clone(c.Adapters), Adapter{Name: name})
		return c
	}
	for _, tc := range []struct {
		name   string
		random float64
		play   func(r *Reporter)
		want   []time.Duration // since the first Update
	}{
		{"first write after a random delay", 0.7, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
		}, []time.Duration{7 * time.Second}},
		{"first write at once", 0, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
		}, []time.Duration{0}},
		{"changes before the first write are in it", 0.7, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
			advance(6 * time.Second)
			r.Update("a", checkout("sha256:2"))
		}, []time.Duration{7 * time.Second}},
		{"document change is spread", 0.5, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
			advance(100 * time.Second)
			r.Update("a", checkout("sha256:2"))
		}, []time.Duration{5 * time.Second, 115 * time.Second}},
		{"changes before a planned write do not move it", 0.5, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
			advance(100 * time.Second)
			for i := range 30 {
				r.Update("a", checkout(fmt.Sprint("sha256:", i+2)))
				advance(500 * time.Millisecond)
			}
		}, []time.Duration{5 * time.Second, 115 * time.Second}},
		{"local change is written at once", 0.5, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
			advance(100 * time.Second)
			r.Update("a", adapter(checkout("sha256:1"), "grpc"))
		}, []time.Duration{5 * time.Second, 100 * time.Second}},
		{"two writes are ten seconds apart", 0, func(r *Reporter) {
			r.Update("a", checkout("sha256:1"))
			advance(time.Second)
			r.Update("a", adapter(checkout("sha256:1"), "grpc"))
			advance(10 * time.Second)
			r.Update("a", adapter(checkout("sha256:1"), "fasthttp"))
		}, []time.Duration{0, 10 * time.Second, 20 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{}
				o := setup(t, f)
				o.Rand = func() float64 { return tc.random }
				r := newReporter(t, o)
				start := time.Now()
				tc.play(r)
				advance(time.Hour)
				wantTimes(t, f.seen(), start, tc.want)
			})
		})
	}
}

func wantTimes(t *testing.T, calls []call, start time.Time, want []time.Duration) {
	t.Helper()
	got := []time.Duration{}
	for _, c := range calls {
		got = append(got, c.at.Sub(start))
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests after %v,\nwant %v", got, want)
	}
}

// Case O21.
func TestBackoff(t *testing.T) {
	refuse := func(status int, header http.Header) func(call) (int, http.Header, error) {
		return func(call) (int, http.Header, error) { return status, header, nil }
	}
	doubling := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second,
		630 * time.Second, 1230 * time.Second, 1830 * time.Second, 2430 * time.Second, 3030 * time.Second}
	for _, tc := range []struct {
		name   string
		answer func(call) (int, http.Header, error)
		want   []time.Duration
	}{
		{"401", refuse(http.StatusUnauthorized, nil), doubling},
		{"403", refuse(http.StatusForbidden, nil), doubling},
		{"404", refuse(http.StatusNotFound, nil), doubling},
		{"422", refuse(http.StatusUnprocessableEntity, nil), doubling},
		{"500", refuse(http.StatusInternalServerError, nil), doubling},
		{"redirect", refuse(http.StatusFound, http.Header{"Location": {"https://elsewhere.example/"}}), doubling},
		{"connection refused", func(call) (int, http.Header, error) { return 0, nil, errors.New("connection refused") }, doubling},
		{"429 with Retry-After", refuse(http.StatusTooManyRequests, http.Header{"Retry-After": {"1000"}}),
			[]time.Duration{0, 1000 * time.Second, 2000 * time.Second, 3000 * time.Second}},
		{"503 with a short Retry-After", refuse(http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}), doubling},
		{"Retry-After without end", refuse(http.StatusTooManyRequests, http.Header{"Retry-After": {"4000000000"}}),
			[]time.Duration{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{answer: tc.answer}
				o := setup(t, f)
				o.Rand = func() float64 { return 0 }
				var log bytes.Buffer
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				r := newReporter(t, o)
				start := time.Now()
				r.Update("checkout", checkout("sha256:aa"))
				advance(3599 * time.Second)
				wantTimes(t, f.seen(), start, tc.want)
				if r.Err() == nil {
					t.Error("Err is nil")
				}
				if n := strings.Count(log.String(), "level=WARN"); n != 1 {
					t.Errorf("%d warnings, want one:\n%s", n, log.String())
				}
			})
		})
	}
}

// Case R28.
func TestRotatedTokenIsUsedAtTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(c call) (int, http.Header, error) {
			if c.header.Get("Authorization") != "Bearer secret-2" {
				return http.StatusUnauthorized, nil, nil
			}
			return http.StatusOK, nil, nil
		}}
		o := setup(t, f)
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := newReporter(t, o)
		start := time.Now()
		r.Update("checkout", checkout("sha256:aa"))
		advance(6 * time.Second)
		write(t, o.TokenFile, "secret-2\n")
		advance(time.Hour)
		wantTimes(t, f.seen(), start, []time.Duration{5 * time.Second, 17500 * time.Millisecond})
		if r.Err() != nil {
			t.Errorf("Err is still %v", r.Err())
		}
		if !strings.Contains(log.String(), "written again") {
			t.Errorf("recovery is not logged:\n%s", log.String())
		}
	})
}

func TestTokenThatVanishedIsAFailureLikeAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		o := setup(t, f)
		r := newReporter(t, o)
		if err := os.Remove(o.TokenFile); err != nil {
			t.Fatal(err)
		}
		r.Update("checkout", checkout("sha256:aa"))
		advance(6 * time.Second)
		if r.Err() == nil || len(f.seen()) != 0 {
			t.Fatalf("without a token: Err %v, %d requests", r.Err(), len(f.seen()))
		}
		write(t, o.TokenFile, "secret-3")
		advance(time.Minute)
		if r.Err() != nil || len(f.seen()) != 1 {
			t.Errorf("with the token back: Err %v, %d requests", r.Err(), len(f.seen()))
		}
	})
}

func TestOneWarningPerChangeOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		f.answers(func(call) (int, http.Header, error) { return http.StatusForbidden, nil, nil })
		o := setup(t, f)
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := newReporter(t, o)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Hour)
		f.answers(func(call) (int, http.Header, error) { return http.StatusNotFound, nil, nil })
		advance(time.Hour)
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings, want 2:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), "secret") {
			t.Error("the token is in the log")
		}
	})
}

func TestContentThatMayHaveBeenWrittenIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		r := newReporter(t, setup(t, f))
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Minute)
		// The answer to bb is lost, and the client goes back to aa.
		f.answers(func(call) (int, http.Header, error) { return 0, nil, io.ErrUnexpectedEOF })
		r.Update("checkout", checkout("sha256:bb"))
		advance(16 * time.Second)
		f.answers(nil)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Minute)
		calls := f.seen()
		if len(calls) != 3 || !strings.Contains(calls[2].body, "sha256:aa") {
			t.Errorf("%d requests, the last one must say sha256:aa again", len(calls))
		}
	})
}

// An outage in which nobody could be reached and after which all is as before costs
// the API server no write: ten thousand pods would make them when it comes back.
func TestAnOutageThatChangedNothingIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		o := setup(t, f)
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := newReporter(t, o)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Minute)
		f.answers(func(call) (int, http.Header, error) {
			return 0, nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		})
		stale := checkout("sha256:aa")
		stale.State, stale.Reason = StateStale, "Unreachable"
		r.Update("checkout", stale)
		advance(5 * time.Minute)
		tried := len(f.seen())
		if tried < 2 || r.Err() == nil {
			t.Fatalf("%d requests, error %v", tried, r.Err())
		}
		f.answers(nil)
		r.Update("checkout", checkout("sha256:aa"))
		advance(time.Hour)
		if n := len(f.seen()) - tried; n != 0 || r.Err() != nil {
			t.Errorf("%d requests after the outage, error %v", n, r.Err())
		}
		if warned, well := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "written again"); warned != 1 || well != 1 {
			t.Errorf("%d warnings, %d times well:\n%s", warned, well, &log)
		}
		// What changed is written.
		r.Update("checkout", checkout("sha256:bb"))
		advance(time.Minute)
		if n := len(f.seen()) - tried; n != 1 {
			t.Errorf("%d requests for the next change", n)
		}
	})
}

func TestClientsOfOnePodShareOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{}
		o := setup(t, f)
		first, second := newReporter(t, o), newReporter(t, o)
		first.Update("checkout", checkout("sha256:aa"))
		second.Update("billing", checkout("sha256:bb"))
		advance(time.Minute)
		if calls := f.seen(); len(calls) != 1 || names(t, calls[0]) != "billing checkout" {
			t.Fatalf("%d requests, want one with both clients", len(calls))
		}
		second.Close()
		second.Update("billing", checkout("sha256:cc"))
		advance(time.Minute)
		if calls := f.seen(); len(calls) != 2 || names(t, calls[1]) != "checkout" {
			t.Errorf("after Close of one there are %d requests, want a second one with the other client alone", len(calls))
		}
	})
}

func names(t *testing.T, c call) string {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(c.body), &o); err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, client := range o.Clients {
		list = append(list, client.Name)
	}
	return strings.Join(list, " ")
}

func TestTwoReportersOfOneClientNameGiveTheWorseState(t *testing.T) {
	said := map[*Reporter]map[string]Client{
		{}: {"a": {Name: "a", State: StateReady, Revision: "sha256:1", Adapters: []Adapter{{Name: "grpc"}}}},
		{}: {"a": {Name: "a", State: StateFallback, Adapters: []Adapter{{Name: "nethttp"}}}},
	}
	got := merged(said)
	if len(got) != 1 || got[0].State != StateFallback || len(got[0].Adapters) != 2 {
		t.Errorf("merged is %+v, want one client in Fallback with two adapters", got)
	}
}

func TestUpdateNeverBlocksAndCloseEndsAWriteInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{inFlight: make(chan struct{})}
		r := newReporter(t, setup(t, f))
		r.Update("checkout", checkout("sha256:aa"))
		advance(6 * time.Second) // the write hangs now
		start := time.Now()
		for i := range 1000 {
			r.Update("checkout", checkout(fmt.Sprint("sha256:", i)))
		}
		r.Close()
		r.Close()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Update and Close took %s", waited)
		}
	})
}

func TestNilReporterDoesNothing(t *testing.T) {
	var r *Reporter
	r.Update("checkout", checkout("sha256:aa"))
	r.Close()
	if r.Err() != nil {
		t.Errorf("Err is %v", r.Err())
	}
}

// An API server that throttles and is then away for minutes must not be beaten
// by the pods of a large cluster, and must not see them come back in step.
//
// Case O27.
func TestOutageWithAThousandClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		throttled, away := start.Add(40*time.Second), start.Add(340*time.Second)
		f := &fakeServer{answer: func(c call) (int, http.Header, error) {
			switch {
			case c.at.Before(throttled):
				return http.StatusTooManyRequests, http.Header{"Retry-After": {"5"}}, nil
			case c.at.Before(away):
				return 0, nil, errors.New("connection refused")
			default:
				return http.StatusOK, nil, nil
			}
		}}
		o := setup(t, f)
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		o.Rand = func() float64 { mu.Lock(); defer mu.Unlock(); return rng.Float64() }
		const clients = 1000
		for i := range clients {
			o.Pod.Name = fmt.Sprintf("checkout-%d", i)
			r := newReporter(t, o)
			r.Update("checkout", checkout("sha256:aa"))
		}
		advance(time.Hour)

		attempts, bySecond, lastTry := map[string]int{}, map[int]int{}, map[string]time.Time{}
		recovered := time.Duration(0)
		for _, c := range f.seen() {
			if before, again := lastTry[c.url]; again && c.at.Sub(before) < 5*time.Second {
				t.Fatalf("%s came back after %s, Retry-After was 5s", c.url, c.at.Sub(before))
			}
			lastTry[c.url] = c.at
			attempts[c.url]++
			bySecond[int(c.at.Sub(start).Seconds())]++
			recovered = max(recovered, c.at.Sub(away))
		}
		most, peak, peakLate := 0, 0, 0
		for _, n := range attempts {
			most = max(most, n)
		}
		for second, n := range bySecond {
			peak = max(peak, n)
			if second > 60 {
				peakLate = max(peakLate, n)
			}
		}
		t.Logf("%d clients: at most %d attempts each, at most %d requests in a second (%d after the first minute), all written %s after the outage",
			len(attempts), most, peak, peakLate, recovered.Round(time.Second))
		if len(attempts) != clients || most > 10 {
			t.Errorf("%d clients with up to %d attempts, want %d with 10 at most", len(attempts), most, clients)
		}
		if peak > clients/5 || peakLate > clients/10 {
			t.Errorf("%d requests in one second (%d late), they are not spread", peak, peakLate)
		}
		for url, at := range lastTry {
			if at.Before(away) {
				t.Errorf("%s was never written", url)
			}
		}
	})
}

// The real thing: TLS, files, sockets.
func TestReportOverTLSWithRotatingFiles(t *testing.T) {
	type request struct{ token, body string }
	requests := make(chan request, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		token := req.Header.Get("Authorization")
		requests <- request{token, string(body)}
		if token != "Bearer secret-2" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	write(t, filepath.Join(dir, "ca.crt"), string(ca))
	write(t, filepath.Join(dir, "token"), "secret-1")
	t.Setenv(EnvPodName, "checkout-7d9")
	t.Setenv(EnvPodNamespace, "shop")
	t.Setenv(EnvPodUID, "uid-"+t.Name())
	t.Setenv(EnvServer, server.URL)
	t.Setenv(EnvTokenFile, filepath.Join(dir, "token"))
	t.Setenv(EnvCAFile, filepath.Join(dir, "ca.crt"))
	t.Setenv(EnvMaxDelay, "10ms")

	r := newReporter(t, Options{})
	r.Update("checkout", checkout("sha256:aa"))
	if got := <-requests; got.token != "Bearer secret-1" {
		t.Errorf("first token is %q", got.token)
	}
	write(t, filepath.Join(dir, "token"), "secret-2")
	for got := range requests {
		if got.token == "Bearer secret-2" {
			break
		}
	}
	r.Update("checkout", checkout("sha256:bb"))
	for got := range requests {
		if strings.Contains(got.body, "sha256:bb") {
			break
		}
	}
	r.Close()
}

func TestServerThatIsNotTrustedIsAFailure(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "secret-1")
	s := newSender(Options{Server: server.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")})
	if err := s.send(context.Background(), []byte("{}")); err == nil || err.class != "unreachable" {
		t.Errorf("without the CA: %v", err)
	}
	write(t, filepath.Join(dir, "ca.crt"), "no certificate")
	if err := s.send(context.Background(), []byte("{}")); err == nil || err.class != "ca" {
		t.Errorf("with a broken CA bundle: %v", err)
	}
}

func TestReportingIsOffOutsideOfAPod(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"kubernetes.io":{"namespace":"shop","pod":{"name":"checkout-7d9","uid":"u-1"}}}`))
	for _, tc := range []struct {
		name  string
		env   map[string]string
		token string
		want  Pod
		off   bool
		fails bool
	}{
		{name: "no API server", env: map[string]string{EnvServer: ""}, token: "x", off: true},
		{name: "no token", off: true},
		{name: "empty token", token: "\n", off: true},
		{name: "token of two lines", token: "a\nb", off: true},
		{name: "no pod", token: "x", off: true},
		{name: "pod from the environment", token: "x", env: map[string]string{EnvPodName: "a", EnvPodNamespace: "b", EnvPodUID: "c"}, want: Pod{"a", "b", "c"}},
		{name: "pod from the token", token: "h." + claims + ".s", want: Pod{"checkout-7d9", "shop", "u-1"}},
		{name: "environment before token", token: "h." + claims + ".s", env: map[string]string{EnvPodName: "a"}, want: Pod{"a", "shop", "u-1"}},
		{name: "namespace from its file", token: "x", env: map[string]string{EnvPodName: "a", EnvPodUID: "c", "namespace file": "shop\n"}, want: Pod{"a", "shop", "c"}},
		{name: "address from Kubernetes", token: "h." + claims + ".s", env: map[string]string{EnvServer: "", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, want: Pod{"checkout-7d9", "shop", "u-1"}},
		{name: "token in clear text", token: "h." + claims + ".s", env: map[string]string{EnvServer: "http://10.0.0.1"}, fails: true},
		{name: "bad delay", token: "h." + claims + ".s", env: map[string]string{EnvMaxDelay: "5"}, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{EnvPodName, EnvPodNamespace, EnvPodUID, EnvMaxDelay, "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
				t.Setenv(name, "")
			}
			t.Setenv(EnvServer, "https://10.0.0.1")
			t.Setenv(EnvTokenFile, filepath.Join(dir, "token"))
			if tc.token != "" {
				write(t, filepath.Join(dir, "token"), tc.token)
			}
			for name, value := range tc.env {
				if name == "namespace file" {
					write(t, filepath.Join(dir, "namespace"), value)
					continue
				}
				t.Setenv(name, value)
			}
			r, err := New(Options{})
			switch {
			case tc.off != errors.Is(err, ErrOff) || tc.fails != (err != nil && !tc.off):
				t.Errorf("error is %v", err)
			case err == nil:
				defer r.Close()
				if r.writer.pod != tc.want {
					t.Errorf("pod is %+v, want %+v", r.writer.pod, tc.want)
				}
			}
		})
	}
}

func TestMaxDelayBoundsAllDelays(t *testing.T) {
	t.Setenv(EnvMaxDelay, "2s")
	var o Options
	if err := o.completeDelays(); err != nil {
		t.Fatal(err)
	}
	if o.FirstDelay != 2*time.Second || o.MinInterval != 2*time.Second || o.Spread != 2*time.Second || o.MaxBackoff != 10*time.Minute {
		t.Errorf("delays are %s, %s, %s, %s", o.FirstDelay, o.MinInterval, o.Spread, o.MaxBackoff)
	}
}
