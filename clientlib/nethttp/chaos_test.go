package nethttp_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
)

// Calls of all kinds at once, to a server that does anything, under any rules: every
// error keeps its contract, every call is told of, and nothing is left.
func TestNothingIsLeftWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		c := chaos{policytest.NewChaos(seed)}
		inFakeTimeWith(t, rules(t, c.Rules), c, func(b *bench) {
			c.Calls(func(all *sync.WaitGroup) { c.call(b, all) })
			<-time.After(time.Minute) // of the bubble, as all waits here
			synctest.Wait()
			policytest.Settled(t, b.events, b.timers)
			c.Recovers(b.t, func() error { return c.calm(b) })
		})
		if t.Failed() {
			t.Fatalf("with seed %d under %q", seed, c.Rules)
		}
	}
}

type chaos struct{ *policytest.Chaos }

// call makes a call in some way, and reads something of its response.
func (c chaos) call(b *bench, all *sync.WaitGroup) {
	<-time.After(c.Within(500 * time.Millisecond))
	ctx, cancel := c.Caller(b.t.Context(), all)
	defer cancel()
	var body io.Reader
	method := "GET"
	switch c.N(4) {
	case 0:
		method, body = "POST", strings.NewReader("some body")
	case 1:
		p := c.Body(all)
		defer p.Close()
		method, body = "PUT", p
	}
	req := b.request(ctx, method, "/", body)
	var resp *http.Response
	var err error
	if c.OneIn(2) {
		resp, err = b.http.Do(req)
	} else {
		resp, err = b.transport.RoundTrip(req)
	}
	c.check(b, err)
	if err != nil {
		return
	}
	for range c.N(8) {
		if _, err := resp.Body.Read(make([]byte, 3)); err != nil {
			c.check(b, err)
			break
		}
		if c.OneIn(3) {
			<-time.After(c.Within(300 * time.Millisecond))
		}
	}
	_ = resp.Body.Close()
}

// check lets pass the end of a body, and redirects that http.Client does not follow.
func (c chaos) check(b *bench, err error) {
	if err == nil || err == io.EOF || strings.Contains(err.Error(), "stopped after 10 redirects") {
		return
	}
	for _, breach := range policytest.Breaches(err) {
		b.t.Errorf("%s", breach)
	}
}

// calm makes a call that has to succeed.
func (c chaos) calm(b *bench) error {
	resp, err := b.get("/ok")
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}
