package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// What programs have and other tests do not: the system's own clock, on which timers
// are put off and passed on from call to call, and callers whose context never ends,
// for whom an attempt has a context of the library's own.

// onSystemClock makes a client for 127.0.0.1 on top of base.
func onSystemClock(t *testing.T, rules string, base *http.Transport) *http.Client {
	t.Helper()
	client := policytest.NewClient(t, loopbackRules(t, rules), &policytest.Events{}, &clienttest.Timers{}, clientlib.WithClock(clock.System()))
	c := &http.Client{Transport: nethttp.NewTransport(client, base)}
	t.Cleanup(func() {
		c.CloseIdleConnections()
		if err := client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

// callers are those who may call: how a call ends does not depend on them.
func callers(t *testing.T) map[string]context.Context {
	return map[string]context.Context{"who never leaves": context.Background(), "who may leave": t.Context()}
}

// fetch makes a call, reads its body and returns how long that took.
func fetch(ctx context.Context, c *http.Client, url string) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return time.Since(began), err
}

// endedBy says what is wrong with the error of a call that a limit ended after a time:
// "" for nothing.
func endedBy(err error, took time.Duration, kind kinds.Kind, limit time.Duration) string {
	var e *clientlib.Error
	switch {
	case !errors.As(err, &e) || e.Kind != kind:
		return fmt.Sprintf("%v, want %v", err, kind)
	case !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return fmt.Sprintf("%v does not say that a limit passed", err)
	case took < limit:
		return fmt.Sprintf("ended after %s: %v", took, err)
	default:
		return ""
	}
}

func TestEachLimitEndsItsCallWhoeverCalls(t *testing.T) {
	const twice = `,"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`
	for _, protocol := range protocols {
		u, base := serve(t, protocol, &clienttest.Origin{})
		var all sync.WaitGroup
		for _, c := range []struct {
			rules, path string
			kind        kinds.Kind
			after       time.Duration
		}{
			{`"timeouts":{"total":"1m","attempt":"20ms"}` + twice, "/hang", kinds.AttemptTimeout, 40 * time.Millisecond},
			{`"timeouts":{"total":"50ms"}` + twice, "/hang", kinds.TotalTimeout, 50 * time.Millisecond},
			{`"timeouts":{"total":"40ms"}`, "/redirect?to=/hang", kinds.TotalTimeout, 40 * time.Millisecond},
			{`"timeouts":{"total":"40ms"}`, "/drip?every=1h", kinds.TotalTimeout, 40 * time.Millisecond},
			{`"timeouts":{"total":"40ms","bodyIdle":"1m"}`, "/drip?n=1000&every=2ms", kinds.TotalTimeout, 40 * time.Millisecond},
			{`"timeouts":{"total":"1m","bodyIdle":"20ms"}`, "/drip?every=1h", kinds.ReadTimeout, 20 * time.Millisecond},
		} {
			client := onSystemClock(t, c.rules, base)
			for caller, ctx := range callers(t) {
				all.Go(func() {
					took, err := fetch(ctx, client, u+c.path)
					if fault := endedBy(err, took, c.kind, c.after); fault != "" {
						t.Errorf("%s, a caller %s, %s under %s: %s", protocol, caller, c.path, c.rules, fault)
					}
				})
			}
		}
		all.Wait()
	}
}

// Short limits and long ones take turns on one client: each call has its own, though
// it has the timer of an earlier one.
func TestALimitCutsNoOtherCall(t *testing.T) {
	const long = time.Minute
	limits := []time.Duration{2 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, long}
	paths := []string{"/ok", "/slow?delay=4ms", "/drip?n=2&every=3ms", "/hang"}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		u, base := serve(t, protocol, &clienttest.Origin{})
		base.MaxIdleConnsPerHost = 8
		client := onSystemClock(t, ``, base)
		var all sync.WaitGroup
		for _, ctx := range callers(t) {
			for seed := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, 0))
				all.Go(func() {
					for range 40 {
						limit, path := limits[random.IntN(len(limits))], paths[random.IntN(len(paths))]
						if limit == long && path == "/hang" {
							continue
						}
						took, err := fetch(clientlib.WithCall(ctx, clientlib.Cap(limit)), client, u+path)
						if err == nil && path != "/hang" {
							continue
						}
						if fault := endedBy(err, took, kinds.TotalTimeout, limit); fault != "" {
							t.Errorf("%s, %s under %s: %s", protocol, path, limit, fault)
						}
					}
				})
			}
		}
		all.Wait()
	}
}

// deriving makes contexts of its own of that of a request, as what programs register
// with a transport does, and waits for them.
type deriving struct{ own time.Duration }

func (d deriving) RoundTrip(req *http.Request) (*http.Response, error) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(req.Context(), key{}, "kept"), d.own)
	defer cancel()
	if req.URL.Path == "/hang" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func TestARegisteredProtocolMayDeriveContexts(t *testing.T) {
	for caller, ctx := range callers(t) {
		for _, c := range []struct {
			rules string
			own   time.Duration
			kind  kinds.Kind
			after time.Duration
		}{
			{`"timeouts":{"total":"20ms"}`, time.Hour, kinds.TotalTimeout, 20 * time.Millisecond},
			{`"timeouts":{"total":"1m","attempt":"20ms"}`, time.Hour, kinds.AttemptTimeout, 20 * time.Millisecond},
			{`"timeouts":{"total":"1m"}`, 20 * time.Millisecond, kinds.ReadTimeout, 20 * time.Millisecond},
		} {
			base := &http.Transport{}
			base.RegisterProtocol("memory", deriving{c.own})
			client := onSystemClock(t, c.rules, base)
			if _, err := fetch(ctx, client, "memory://127.0.0.1/ok"); err != nil {
				t.Errorf("a caller %s: %v", caller, err)
			}
			took, err := fetch(ctx, client, "memory://127.0.0.1/hang")
			if fault := endedBy(err, took, c.kind, c.after); fault != "" {
				t.Errorf("a caller %s, under %s: %s", caller, c.rules, fault)
			}
		}
	}
}
