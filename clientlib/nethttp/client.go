package nethttp

import (
	"net/http"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

// NewClient returns an http.Client whose calls obey the policies of c. Its
// fields may be set like those of any other, but leave Timeout at zero: a
// policy's total does its work. One that is set all the same is in force, and
// c's status warns of it.
func NewClient(c *clientlib.Client) *http.Client {
	t := NewTransport(c, nil)
	own := &http.Client{Transport: t}
	t.outer = &outerTimeout{of: own, warn: c.Warn}
	return own
}

// outerTimeout looks after the http.Client around a Transport: its Timeout covers
// the body too and ends calls that the policy lets go on, and from inside it
// cannot be told from a deadline of the caller's.
type outerTimeout struct {
	of   *http.Client
	warn func(string)
	told atomic.Bool
}

// check warns once.
func (o *outerTimeout) check() {
	if o.of.Timeout > 0 && !o.told.Swap(true) {
		o.warn("http.Client.Timeout is set to " + o.of.Timeout.String() + ": it cuts calls, bodies included, whatever the policy says; leave it at zero")
	}
}

// NewTransport returns the http.RoundTripper of a client's policies on top of
// base; nil means a copy of http.DefaultTransport that checks the health of its
// HTTP/2 connections. What base does by itself, such as a timeout of its own, it
// goes on doing.
func NewTransport(c *clientlib.Client, base http.RoundTripper) *Transport {
	c.UseAdapter(capability.NetHTTP())
	return New(c.Engine(), base)
}
