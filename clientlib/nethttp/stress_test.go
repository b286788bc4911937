package nethttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// Many callers while the policy changes all the time. Each request says, by the
// name and the value of its deadline header, which policy it was made under; how
// often a call is tried says so too.

// arrivals keeps what each call's requests said.
type arrivals struct {
	mu    sync.Mutex
	calls map[string][]string
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	said := "nothing"
	for _, header := range []string{"X-Short", "X-Long"} {
		if left, err := strconv.Atoi(r.Header.Get(header)); err == nil {
			said = header
			if (left > 100_000) != (header == "X-Long") {
				said = fmt.Sprintf("%s with %d left", header, left)
			}
		}
	}
	a.mu.Lock()
	id := r.Header.Get("Call")
	a.calls[id] = append(a.calls[id], said)
	a.mu.Unlock()
	if r.URL.Path == "/first" {
		http.Redirect(w, r, "/second", http.StatusFound)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func TestCallersNeverNoticeThatThePolicyIsSwapped(t *testing.T) {
	a := &arrivals{calls: map[string][]string{}}
	server, base := serve(t, "HTTP/1.1", a)
	base.MaxIdleConnsPerHost = 64
	const retry = `"retry":{"maxAttempts":%d,"backoff":{"initial":"1ms","max":"1ms"},"budget":{"percent":100,"burst":100000}},"circuitBreaker":{"tripKinds":["TotalTimeout"]}`
	documents := []*document.Document{
		loopbackRules(t, `"timeouts":{"total":"100s"},"deadline":{"header":"X-Short"},`+fmt.Sprintf(retry, 2)),
		loopbackRules(t, `"timeouts":{"total":"1000s","attempt":"50s","bodyIdle":"50s"},"deadline":{"header":"X-Long"},`+fmt.Sprintf(retry, 3)),
	}
	e := engine.New(engine.Options{Observers: []engine.Observer{quiet{}}})
	e.Swap(documents[0])
	client := &http.Client{Transport: nethttp.New(e, base)}
	defer client.CloseIdleConnections()

	calling := make(chan struct{})
	var swapping, callers sync.WaitGroup
	var swaps atomic.Int64
	swapping.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-calling:
				return
			case <-tick.C:
				e.Swap(documents[swaps.Add(1)%2])
			}
		}
	})
	var calls atomic.Int64
	for g := range 64 {
		callers.Go(func() {
			for i := 0; i < 5 || swaps.Load() < 1000; i++ {
				calls.Add(1)
				req := newRequest(t, server+"/first")
				req.Header.Set("Call", fmt.Sprintf("%d-%d", g, i))
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("a call failed for the swap: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	callers.Wait()
	close(calling)
	swapping.Wait()

	counts := map[string]int{}
	for id, said := range a.calls {
		want := map[string]int{"X-Short": 3, "X-Long": 4}[said[0]] // the redirect and the attempts
		for _, s := range said {
			if s != said[0] {
				want = -1
			}
		}
		if len(said) != want {
			t.Errorf("call %s was made under %v", id, said)
		}
		counts[said[0]]++
	}
	if int64(len(a.calls)) != calls.Load() || counts["X-Short"] == 0 || counts["X-Long"] == 0 {
		t.Errorf("%d calls, %v, %d swaps: the test does not test", len(a.calls), counts, swaps.Load())
	}
}

// TestNothingIsLeftBehind makes calls that end in every untidy way, and waits
// until the server has noticed each: a connection or a stream that is kept would
// keep its handler. TestMain looks for goroutines.
func TestNothingIsLeftBehind(t *testing.T) {
	const n = 5
	for _, protocol := range protocols {
		for _, c := range []struct {
			name, rules, path string
			call              func(t *testing.T, c *http.Client, req *http.Request)
		}{
			{"the server never answers", `"timeouts":{"attempt":"20ms"}`, "/hang", func(t *testing.T, c *http.Client, req *http.Request) {
				_, err := c.Do(req)
				failure(t, err)
			}},
			{"the body is never closed", `"timeouts":{"total":"60ms"}`, "/drip?every=1h", func(t *testing.T, c *http.Client, req *http.Request) {
				if _, err := c.Do(req); err != nil {
					failure(t, err) // on a slow machine the total may be over
				}
			}},
			{"the caller leaves within the body", `"timeouts":{"bodyIdle":"1h"}`, "/drip?every=1h", func(t *testing.T, c *http.Client, req *http.Request) {
				ctx, cancel := context.WithCancel(req.Context())
				defer cancel()
				resp, err := c.Do(req.WithContext(ctx))
				if err != nil {
					t.Error(err)
					return
				}
				cancel()
				_, err = io.ReadAll(resp.Body)
				if err != nil {
					failure(t, err)
				}
			}},
			{"the caller closes within the body", `"timeouts":{"total":"1h"}`, "/drip?every=1h", func(t *testing.T, c *http.Client, req *http.Request) {
				resp, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}},
		} {
			t.Run(protocol+", "+c.name, func(t *testing.T) {
				left := make(chan struct{}, n)
				origin := &clienttest.Origin{}
				server, base := serve(t, protocol, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() { left <- struct{}{} }()
					origin.ServeHTTP(w, r)
				}))
				l := overSockets(t, c.rules, base)
				var callers sync.WaitGroup
				for range n {
					callers.Go(func() { c.call(t, l.http, newRequest(t, server+c.path)) })
				}
				callers.Wait()
				for range origin.Requests(path(c.path)) {
					<-left // or the test ends with its timeout
				}
			})
		}
	}
}

func path(s string) string {
	req, _ := http.NewRequest(http.MethodGet, "http://x"+s, nil)
	return req.URL.Path
}

// M1, go-retryablehttp#82 #246 #98: a retried response costs no connection.
func TestConnectionsAreUsedAgainAfterRetries(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			server, base := serve(t, protocol, &clienttest.Origin{})
			var dials atomic.Int64
			base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
			l := overSockets(t, `"retry":{"maxAttempts":3,"backoff":{"initial":"1ms"}}`, base)
			for i := range 5 {
				resp, err := l.http.Get(server + "/status?times=2&key=" + strconv.Itoa(i))
				if err != nil {
					t.Fatal(err)
				}
				if text, err := readAll(t, resp); text != "ok\n" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
			}
			if n := dials.Load(); n != 1 {
				t.Errorf("%d connections for 15 requests, want 1", n)
			}
		})
	}
}
