package deadline_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// serve has a request served by a middleware and returns the answer's code and
// what the handler had left, -1 for no budget.
func serve(mw http.Handler, got *context.Context, peer string, header http.Header) (code int, has time.Duration) {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = peer
	maps.Copy(req.Header, header)
	rec := httptest.NewRecorder()
	*got = context.Background()
	mw.ServeHTTP(rec, req)
	return rec.Code, left(*got)
}

func captured() (http.Handler, *context.Context) {
	got := new(context.Context)
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *got = r.Context() }), got
}

const cluster = "10.1.2.3:40000"

func trusting() deadline.Option { return deadline.TrustPrefixes(netip.MustParsePrefix("10.0.0.0/8")) }

func TestADeadlineOfATrustedPeerIsTheBudgetOfItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const none = -1
		seen := &clienttest.Deadlines{}
		for _, c := range []struct {
			name    string
			opts    []deadline.Option
			header  http.Header
			code    int
			has     time.Duration
			results string
		}{
			{"no header", nil, nil, 200, none, ""},
			{"milliseconds", nil, http.Header{"X-Deadline-Ms": {"4980"}}, 200, 4980 * time.Millisecond, "http:accepted"},
			{"gRPC's", nil, http.Header{"Grpc-Timeout": {"2S"}}, 200, 2 * time.Second, "http:accepted"},
			{"Envoy's", nil, http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"15000"}}, 200, 15 * time.Second, "http:accepted"},
			{"Envoy's for no limit", nil, http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"0"}}, 200, none, ""},
			{"the tightest of all", nil, http.Header{"X-Deadline-Ms": {"4980"}, "Grpc-Timeout": {"2S"}, "X-Envoy-Expected-Rq-Timeout-Ms": {"15000"}}, 200, 2 * time.Second, "http:accepted"},
			{"a bad one beside a good one", nil, http.Header{"X-Deadline-Ms": {"soon"}, "Grpc-Timeout": {"2S"}}, 200, 2 * time.Second, "http:malformed http:accepted"},
			{"a name of one's own", []deadline.Option{deadline.Headers(deadline.Milliseconds("x-left"))}, http.Header{"X-Left": {"5"}, "X-Deadline-Ms": {"1"}}, 200, 5 * time.Millisecond, "http:accepted"},
			{"no header is read", []deadline.Option{deadline.Headers()}, http.Header{"X-Deadline-Ms": {"1"}}, 200, none, ""},
			{"a header that is none", []deadline.Option{deadline.Headers(deadline.Header{})}, http.Header{"": {"1"}}, 200, none, ""},
			{"more than the maximum", []deadline.Option{deadline.Maximum(time.Second)}, http.Header{"X-Deadline-Ms": {"1001"}}, 200, time.Second, "http:bounded"},
			{"the maximum", []deadline.Option{deadline.Maximum(time.Second)}, http.Header{"X-Deadline-Ms": {"1000"}}, 200, time.Second, "http:accepted"},
			{"more than an hour", nil, http.Header{"X-Deadline-Ms": {"999999999999"}}, 200, time.Hour, "http:bounded"},
			{"no maximum", []deadline.Option{deadline.Maximum(0)}, http.Header{"Grpc-Timeout": {"9999H"}}, 200, 9999 * time.Hour, "http:accepted"},
			{"nothing left", nil, http.Header{"X-Deadline-Ms": {"0"}}, 200, 0, "http:spent"},
			{"nothing left is refused", []deadline.Option{deadline.RefuseSpent()}, http.Header{"X-Deadline-Ms": {"0"}}, 504, none, "http:spent"},
			{"something left is not refused", []deadline.Option{deadline.RefuseSpent()}, http.Header{"X-Deadline-Ms": {"1"}}, 200, time.Millisecond, "http:accepted"},
			{"twice", nil, http.Header{"X-Deadline-Ms": {"5", "5"}}, 200, none, "http:malformed"},
			{"twice, then refused", []deadline.Option{deadline.RefuseSpent()}, http.Header{"X-Deadline-Ms": {"0", "0"}}, 200, none, "http:malformed"},
		} {
			handler, got := captured()
			mw := deadline.Middleware(handler, append([]deadline.Option{trusting(), deadline.WithObserver(seen), deadline.WithObserver(nil)}, c.opts...)...)
			code, has := serve(mw, got, cluster, c.header)
			if told := seen.Take(); code != c.code || has != c.has || told != c.results {
				t.Errorf("%s: %d with %s left, told %q, want %d, %s, %q", c.name, code, has, told, c.code, c.has, c.results)
			}
		}
	})
}

func TestTrustIsAChoice(t *testing.T) { synctest.Test(t, trustIsAChoice) }

func trustIsAChoice(t *testing.T) {
	prefix := func(s ...string) (out []netip.Prefix) {
		for _, p := range s {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	cluster4 := deadline.TrustPrefixes(prefix("10.0.0.0/8", "fd00::/8")...)
	for _, c := range []struct {
		name    string
		opts    []deadline.Option
		peer    string
		header  http.Header
		trusted bool
	}{
		{"loopback by default", nil, "127.0.0.1:80", nil, true},
		{"a private network by default", nil, "10.1.2.3:80", nil, true},
		{"a private network of IPv6 by default", nil, "[fd12::1]:80", nil, true},
		{"link-local by default", nil, "[fe80::1%eth0]:80", nil, true},
		{"the shared network by default", nil, "100.127.0.1:80", nil, true},
		{"beside the shared network", nil, "100.128.0.1:80", nil, false},
		{"the internet, not by default", nil, "203.0.113.7:80", nil, false},
		{"the internet over IPv6, not by default", nil, "[2001:db8::1]:80", nil, false},
		{"the internet mapped into IPv6, not by default", nil, "[::ffff:203.0.113.7]:80", nil, false},
		{"a Unix socket, not by default", nil, "@", nil, false},
		{"nobody", []deadline.Option{deadline.TrustPrefixes()}, "127.0.0.1:80", nil, false},
		{"no function trusts nobody", []deadline.Option{deadline.TrustFunc(nil)}, "127.0.0.1:80", nil, false},
		{"inside", []deadline.Option{cluster4}, "10.255.0.1:1", nil, true},
		{"outside", []deadline.Option{cluster4}, "11.0.0.1:1", nil, false},
		{"IPv6 inside", []deadline.Option{cluster4}, "[fd12::1]:1", nil, true},
		{"IPv6 with a zone", []deadline.Option{deadline.TrustPrefixes(prefix("fe80::/10")...)}, "[fe80::1%eth0]:1", nil, true},
		{"IPv6 outside", []deadline.Option{cluster4}, "[2001:db8::1]:1", nil, false},
		{"IPv4 mapped into IPv6", []deadline.Option{cluster4}, "[::ffff:10.0.0.1]:1", nil, true},
		{"a prefix that is mapped", []deadline.Option{deadline.TrustPrefixes(prefix("::ffff:10.0.0.0/104")...)}, "10.0.0.1:1", nil, true},
		{"a prefix of everything in IPv6 is not IPv4", []deadline.Option{deadline.TrustPrefixes(prefix("::/0")...)}, "10.0.0.1:1", nil, false},
		{"several calls add up", []deadline.Option{cluster4, deadline.TrustPrefixes(prefix("192.168.0.0/16")...)}, "192.168.1.1:1", nil, true},
		{"Unix socket", []deadline.Option{cluster4}, "@", nil, false},
		{"no address", []deadline.Option{cluster4, deadline.TrustPrefixes(prefix("0.0.0.0/0", "::/0")...)}, "", nil, false},
		{"no port", []deadline.Option{cluster4}, "10.0.0.1", nil, false},
		{"what a header says of the peer", []deadline.Option{cluster4}, "11.0.0.1:1", http.Header{"X-Forwarded-For": {"10.0.0.1"}, "Forwarded": {"for=10.0.0.1"}, "X-Real-Ip": {"10.0.0.1"}}, false},
		{"everyone", []deadline.Option{deadline.TrustEveryone()}, "@", nil, true},
		{"a function", []deadline.Option{deadline.TrustFunc(func(in *deadline.Incoming) bool { return in.Request.Header.Get("X-Mesh") == "1" })}, "11.0.0.1:1", http.Header{"X-Mesh": {"1"}}, true},
		{"a function that says no", []deadline.Option{deadline.TrustFunc(func(*deadline.Incoming) bool { return false }), deadline.TrustFunc(nil)}, "10.0.0.1:1", nil, false},
		{"a function beside prefixes", []deadline.Option{cluster4, deadline.TrustFunc(func(*deadline.Incoming) bool { return false })}, "10.0.0.1:1", nil, true},
	} {
		seen := &clienttest.Deadlines{}
		handler, got := captured()
		header := http.Header{"X-Deadline-Ms": {"5000"}}
		maps.Copy(header, c.header)
		_, has := serve(deadline.Middleware(handler, append(c.opts, deadline.WithObserver(seen))...), got, c.peer, header)
		want := "http:untrusted"
		if c.trusted {
			want = "http:accepted"
		}
		if told := seen.Take(); has >= 0 != c.trusted || told != want {
			t.Errorf("%s: budget %s, told %q", c.name, has, told)
		}
	}
}

// A request can neither lengthen what it has already nor, without trust, shorten
// it, whatever it says.
func TestAHostileHeaderNeitherLengthensNorShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := append(slices.Clone(hostile), "0", "1", "999999999999", "99999999H")
		for _, trusted := range []bool{false, true} {
			opts := []deadline.Option{deadline.RefuseSpent(), deadline.EndContext()}
			if trusted {
				opts = append(opts, trusting())
			} else {
				opts = append(opts, deadline.TrustPrefixes())
			}
			handler, got := captured()
			inner := deadline.Middleware(handler, opts...)
			outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inner.ServeHTTP(w, r.WithContext(deadline.With(r.Context(), time.Second)))
			})
			for _, name := range []string{"X-Deadline-Ms", "Grpc-Timeout", "X-Envoy-Expected-Rq-Timeout-Ms"} {
				for _, value := range values {
					code, has := serve(outer, got, cluster, http.Header{name: {value}})
					longer := has < 0 && code != 504 || has > time.Second
					shorter := code == 504 || has < time.Second
					if longer || shorter && !(trusted && (value == "0" || value == "1")) {
						t.Errorf("%s: %q (trusted %t): %d with %s left", name, value, trusted, code, has)
					}
				}
			}
		}
	})
}

// The same over a connection, where the bytes are the peer's.
func TestHostileBytesOnTheWireAreNoErrorAndNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &clienttest.Deadlines{}
		network := clienttest.NewNetwork(deadline.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, left(r.Context()))
		}), deadline.TrustEveryone(), deadline.RefuseSpent(), deadline.WithObserver(seen)))
		for _, c := range []struct{ name, lines, body, told string }{
			{"good", "X-Deadline-Ms: 5000", "5s", "http:accepted"},
			{"spaces around", "x-deadline-ms:   5000\t", "5s", "http:accepted"},
			{"two lines", "X-Deadline-Ms: 5000\r\nX-Deadline-Ms: 5000", "-1ns", "http:malformed"},
			{"two lines of two spellings", "X-Deadline-Ms: 5000\r\nx-deadline-ms: 1", "-1ns", "http:malformed"},
			{"one line of two", "X-Deadline-Ms: 5000, 1", "-1ns", "http:malformed"},
			{"empty", "X-Deadline-Ms:", "-1ns", "http:malformed"},
			{"negative", "X-Deadline-Ms: -1", "-1ns", "http:malformed"},
			{"overflow", "X-Deadline-Ms: 18446744073709551617", "-1ns", "http:malformed"},
			{"not ASCII", "X-Deadline-Ms: \xd9\xa1\xd9\xa2", "-1ns", "http:malformed"},
			{"8 KiB of digits", "X-Deadline-Ms: " + strings.Repeat("1", 8<<10), "-1ns", "http:malformed"},
			{"an underscore is another name", "X_Deadline_Ms: 1", "-1ns", ""},
		} {
			conn, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			go io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+c.lines+"\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = conn.Close()
			if told := seen.Take(); resp.StatusCode != 200 || string(body) != c.body || told != c.told {
				t.Errorf("%s: %d %s, told %q, want %s and %q", c.name, resp.StatusCode, body, told, c.body, c.told)
			}
		}
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheContextOfAHandlerEndsWithTheBudgetIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- r.Context().Err()
		})
		start := time.Now()
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("X-Deadline-Ms", "1500")
		deadline.Middleware(handler, deadline.TrustEveryone(), deadline.EndContext()).ServeHTTP(httptest.NewRecorder(), req)
		if err := <-ended; err != context.DeadlineExceeded || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// A bubble does not end while something is left running in it.
func TestABudgetLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, got := captured()
		mw := deadline.Middleware(handler, deadline.TrustEveryone())
		for range 1000 {
			serve(mw, got, cluster, http.Header{"X-Deadline-Ms": {"5000"}})
			deadline.WithSource(deadline.With(t.Context(), time.Hour), deadline.Fixed{End: time.Now().Add(time.Hour)})
		}
	})
}

func TestARequestWithoutADeadlineCostsNextToNothing(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	mw := deadline.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), deadline.TrustEveryone())
	if n := testing.AllocsPerRun(100, func() { mw.ServeHTTP(nil, req) }); n > 2 {
		t.Errorf("%v allocations for a request without a deadline", n)
	}
}

// Whatever three headers say, once or twice, the budget is what the tightest of
// the readable ones says, bounded; without trust, and where it would lengthen, it
// is what was there.
func FuzzIncoming(f *testing.F) {
	for i, value := range hostile {
		f.Add(value, "2S", hostile[(i*7)%len(hostile)], i%3 == 0, i%2 == 0)
	}
	f.Add("4980", "5S", "15000", false, true)
	f.Fuzz(func(t *testing.T, plain, grpc, envoy string, twice, trusted bool) {
		const had, bound = 3 * time.Second, 4 * time.Second
		opts := []deadline.Option{deadline.Maximum(bound)}
		if trusted {
			opts = append(opts, deadline.TrustEveryone())
		}
		said := map[string]string{"X-Deadline-Ms": plain, "Grpc-Timeout": grpc, "X-Envoy-Expected-Rq-Timeout-Ms": envoy}
		now := time.Now()
		end := now.Add(had)
		ctx, done, refused := deadline.NewReader(opts...).Begin(&deadline.Incoming{
			Context: deadline.Until(t.Context(), end),
			Values: func(name string) []string {
				if twice {
					return []string{said[name], said[name]}
				}
				return []string{said[name]}
			},
		})
		defer done()
		want := had
		for _, h := range headers() {
			if left, ok := h.Parse(said[h.Name()]); ok && trusted && !twice {
				want = min(want, left)
			}
		}
		got, ok := deadline.EndAt(ctx, now)
		// The reader looks at the clock itself, later.
		late := time.Since(now)
		if !ok || refused || got.After(end) || got.Sub(now) < want || got.Sub(now) > want+late {
			t.Errorf("%q, %q, %q (twice %t, trusted %t): %s left, want %s", plain, grpc, envoy, twice, trusted, got.Sub(now), want)
		}
	})
}

func TestStampTellsWhatIsLeftAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []deadline.Header{deadline.Milliseconds(""), deadline.GRPCTimeout(), deadline.EnvoyExpected()}
		short, cancel := context.WithTimeout(deadline.With(t.Context(), time.Minute), 500*time.Millisecond)
		defer cancel()
		for _, c := range []struct {
			name    string
			ctx     context.Context
			reserve time.Duration
			headers []deadline.Header
			ok      bool
			want    http.Header
		}{
			{"nothing limits it", t.Context(), 0, nil, true, http.Header{"Accept": {"*/*"}}},
			{"budget", deadline.With(t.Context(), time.Second), 20 * time.Millisecond, nil, true, http.Header{"Accept": {"*/*"}, "X-Deadline-Ms": {"980"}}},
			{"all three", deadline.With(t.Context(), time.Second), 0, all, true, http.Header{"Accept": {"*/*"}, "X-Deadline-Ms": {"1000"}, "Grpc-Timeout": {"1000m"}, "X-Envoy-Expected-Rq-Timeout-Ms": {"1000"}}},
			{"the context's own deadline", short, 100 * time.Millisecond, nil, true, http.Header{"Accept": {"*/*"}, "X-Deadline-Ms": {"400"}}},
			{"rounded down", deadline.With(t.Context(), 1999*time.Microsecond), 0, nil, true, http.Header{"Accept": {"*/*"}, "X-Deadline-Ms": {"1"}}},
			{"less than can be told", deadline.With(t.Context(), 999*time.Microsecond), 0, all, false, http.Header{"Accept": {"*/*"}}},
			{"a reserve that takes all", deadline.With(t.Context(), time.Second), time.Second, nil, false, http.Header{"Accept": {"*/*"}}},
			{"a negative reserve is none", deadline.With(t.Context(), time.Second), -time.Hour, nil, true, http.Header{"Accept": {"*/*"}, "X-Deadline-Ms": {"1000"}}},
			{"spent", deadline.With(t.Context(), 0), 0, nil, false, http.Header{"Accept": {"*/*"}}},
			{"a header that is none", deadline.With(t.Context(), time.Second), 0, []deadline.Header{{}}, true, http.Header{"Accept": {"*/*"}}},
		} {
			header := http.Header{"Accept": {"*/*"}}
			if c.headers == nil {
				header["X-Deadline-Ms"], header["x-deadline-MS"] = []string{"9", "9"}, []string{"9"} // what an earlier service was told
			}
			if ok := deadline.Stamp(c.ctx, header, c.reserve, c.headers...); ok != c.ok || !maps.EqualFunc(header, c.want, slices.Equal) {
				t.Errorf("%s: %t, %v, want %t, %v", c.name, ok, header, c.ok, c.want)
			}
		}
	})
}

// A handler works on a copy of the request, which has the budget. What it notes
// there has to reach the server, which cleans up, and those who log.
func TestWhatAHandlerNotesReachesTheServer(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("upload", "large")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteField("name", "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "5000"} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /orders/{id}", func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1 << 10); err != nil { // the rest is kept in a file
				t.Error(err)
			}
			if _, limited := deadline.Remaining(r.Context()); limited != (header != "") || r.PathValue("id") != "7" {
				t.Errorf("limited %t, id %q", limited, r.PathValue("id"))
			}
			if n := files(t); n != 1 {
				t.Errorf("%d files while it is served", n)
			}
			if header != "" {
				panic("a handler that fails")
			}
		})
		limited := deadline.Middleware(mux)
		var pattern, name string
		outside := func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				_ = recover()
				pattern, name = r.Pattern, r.PostForm.Get("name")
			}()
			limited.ServeHTTP(w, r)
		}
		server := httptest.NewServer(http.HandlerFunc(outside))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/orders/7", bytes.NewReader(form.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", w.FormDataContentType())
		if header != "" {
			req.Header.Set(deadline.DefaultName, header)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		server.Close() // when all requests are finished
		if pattern != "POST /orders/{id}" || name != "a" {
			t.Errorf("with %q: outside, the pattern is %q and the name %q", header, pattern, name)
		}
		if n := files(t); n != 0 {
			t.Errorf("with %q: %d files are left", header, n)
		}
	}
}

// files counts what is in the directory for temporary files.
func files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// uncomparable is a context that a program hands on by value.
type uncomparable struct {
	context.Context
	values []string
}

// Two contexts of such a type cannot be asked whether they are the same one.
func TestTheContextOfAnotherMiddlewareIsHandedOn(t *testing.T) {
	for _, sent := range []string{"", "1500"} {
		handler, got := captured()
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req = req.WithContext(uncomparable{req.Context(), []string{"mine"}})
		if sent != "" {
			req.Header.Set("X-Deadline-Ms", sent)
		}
		deadline.Middleware(handler, deadline.TrustEveryone()).ServeHTTP(httptest.NewRecorder(), req)
		if _, own := (*got).(uncomparable); own != (sent == "") || deadline.Has(*got) == own {
			t.Errorf("with %q it is served with %T", sent, *got)
		}
	}
}
