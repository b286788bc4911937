package nethttp_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

var errOfTheProgram = errors.New("a panic of the program's")

// trap is a base that panics, or answers what panics when it is read.
type trap struct {
	base   http.RoundTripper
	panics bool
	inBody bool
}

func (b *trap) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.panics {
		panic(errOfTheProgram)
	}
	if b.inBody {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: trapBody{}, ContentLength: 3, Request: req}, nil
	}
	return b.base.RoundTrip(req)
}

type trapBody struct{}

func (trapBody) Read([]byte) (int, error) { panic(errOfTheProgram) }
func (trapBody) Close() error             { return nil }

// What a program has within a call may panic, and who serves recovers. Neither a
// call in flight, nor the place of a probe, nor a timer is left.
func TestAPanicEndsItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		trap     trap
		getBody  bool
		attempts []kinds.Kind // of the call that panics
	}{
		"base":           {trap: trap{panics: true}, attempts: []kinds.Kind{kinds.Unknown}},
		"GetBody":        {getBody: true, attempts: []kinds.Kind{kinds.Status, kinds.Unknown}},
		"discarded body": {trap: trap{inBody: true}, attempts: []kinds.Kind{kinds.Status}},
	} {
		t.Run(name, func(t *testing.T) {
			doc := rules(t, `"timeouts":{"total":"10s","attempt":"5s","connect":"3s"},
				"circuitBreaker":{"failures":1,"recovery":"1s"},"retry":{"maxAttempts":2,"methods":["POST"],"backoff":{"initial":"1ms"}}`)
			inFakeTime(t, doc, func(b *bench) {
				broken := &trap{base: b.network.Transport()}
				h := &http.Client{Transport: nethttp.NewTransport(b.client, broken)}
				defer h.CloseIdleConnections()
				post := func(path string, getBody func() (io.ReadCloser, error)) {
					req := b.request(b.t.Context(), http.MethodPost, path, strings.NewReader("abc"))
					if getBody != nil {
						req.GetBody = getBody
					}
					resp, err := h.Do(req)
					if err != nil {
						b.t.Fatal(err)
					}
					if _, err := readAll(b.t, resp); err != nil {
						t.Error(err)
					}
				}
				post("/status?code=500", nil) // opens the circuit
				<-time.After(time.Second)     // of the bubble
				before := len(b.events.Attempts())
				broken.panics, broken.inBody = c.trap.panics, c.trap.inBody
				var getBody func() (io.ReadCloser, error)
				if c.getBody {
					getBody = func() (io.ReadCloser, error) { panic(errOfTheProgram) }
				}
				func() {
					defer func() {
						if got := recover(); got != errOfTheProgram {
							t.Errorf("recovered %v", got)
						}
					}()
					post("/status?code=503", getBody)
				}()
				if n := b.timers.Live(); n != 0 {
					t.Errorf("%d timers are running", n)
				}
				var got []kinds.Kind
				for _, e := range b.events.Attempts()[before:] {
					got = append(got, e.Kind)
				}
				if !slices.Equal(got, c.attempts) {
					t.Errorf("attempts ended with %v, want %v", got, c.attempts)
				}
				calls := b.events.Calls()
				if e := calls[len(calls)-1]; len(calls) != 2 || e.OK || e.Kind != kinds.Unknown {
					t.Errorf("%d calls, the last one %+v", len(calls), e)
				}
				broken.panics, broken.inBody = false, false
				post("/ok", nil) // the next probe
			})
		})
	}
}
