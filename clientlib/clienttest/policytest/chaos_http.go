package policytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// Chaos is one round of calls by chance, for a bubble of fake time: the rules they work
// under, an HTTP server that does anything, and callers of all kinds.
type Chaos struct {
	*Dice
	// Rules are some of [MixedRules].
	Rules string
	// Calm says that the server behaves from now on.
	Calm atomic.Bool
}

// NewChaos returns the round of a seed.
func NewChaos(seed uint64) *Chaos {
	dice := NewDice(seed)
	return &Chaos{Dice: dice, Rules: MixedRules[dice.N(len(MixedRules))]}
}

// Shadow reports whether the rules do nothing but count.
func (c *Chaos) Shadow() bool { return strings.Contains(c.Rules, "Shadow") }

// ends reports whether the rules end a call whose request nobody reads.
func (c *Chaos) ends() bool {
	return strings.Contains(c.Rules, `"total"`) && !c.Shadow() || strings.Contains(c.Rules, `{"attempt"`)
}

// ServeHTTP does anything.
func (c *Chaos) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.Calm.Load() {
		fmt.Fprint(w, "ok")
		return
	}
	if !c.ends() || !c.OneIn(5) {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	pause(c.Within(250 * time.Millisecond))
	switch c.N(9) {
	case 0:
		pause(30 * time.Second)
	case 1:
		w.Header().Set("Retry-After", fmt.Sprint(c.N(2)))
		w.WriteHeader([]int{503, 500, 429, 404}[c.N(4)])
		fmt.Fprint(w, "failed")
	case 2:
		if c.OneIn(2) {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader([]int{200, 503}[c.N(2)])
		for range c.N(6) {
			_ = http.NewResponseController(w).Flush()
			pause(c.Within(200 * time.Millisecond))
			fmt.Fprint(w, "xx")
		}
	case 3:
		c.breakOff(w)
	case 4:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case 5:
		w.Header().Set("Content-Length", "4")
		_ = http.NewResponseController(w).Flush()
		pause(c.Within(800 * time.Millisecond))
		fmt.Fprint(w, "late")
	case 6:
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "bye")
	case 7:
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, "ok")
	}
}

// breakOff says a part of a response, or none of it, and closes the connection, perhaps
// late.
func (c *Chaos) breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, []string{
		"", "junk\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n",
	}[c.N(5)])
	<-time.After(c.Within(1500 * time.Millisecond))
}

// Caller returns the context of a call, and its end. all waits for callers that leave.
func (c *Chaos) Caller(parent context.Context, all *sync.WaitGroup) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	switch c.N(6) {
	case 0:
		return context.WithoutCancel(parent), cancel
	case 1:
		limited, end := context.WithTimeout(ctx, c.Within(600*time.Millisecond))
		return limited, func() { end(); cancel() }
	case 2:
		at := time.After(c.Within(600 * time.Millisecond))
		all.Go(func() { <-at; cancel() })
	case 3:
		ctx = deadline.With(ctx, c.Within(800*time.Millisecond))
	case 4:
		ctx = clientlib.WithCall(ctx, clientlib.Cap(time.Millisecond+c.Within(700*time.Millisecond)), clientlib.Idempotent(c.OneIn(2)))
	}
	return ctx, cancel
}

// Calls makes six calls at once, each by call, and returns when they, and what they
// add to all, are over.
func (c *Chaos) Calls(call func(all *sync.WaitGroup)) {
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { call(&all) })
	}
	all.Wait()
}

// Recovers calms the server, and fails the test unless it can be called again: nothing
// that has ended holds a place in a pool, or that of a probe of the circuit.
func (c *Chaos) Recovers(t testing.TB, call func() error) {
	t.Helper()
	c.Calm.Store(true)
	var err error
	for range 3 {
		if err = call(); err == nil {
			return
		}
		<-time.After(time.Second) // of the bubble
	}
	t.Errorf("in the end: %v", err)
}

// Body is a request body that comes bit by bit.
func (c *Chaos) Body(all *sync.WaitGroup) io.ReadCloser {
	body, w := io.Pipe()
	all.Go(func() {
		defer w.Close()
		for range c.N(5) {
			<-time.After(c.Within(200 * time.Millisecond))
			if _, err := io.WriteString(w, "piece"); err != nil {
				return
			}
		}
	})
	return body
}
