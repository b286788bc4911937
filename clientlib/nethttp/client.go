package nethttp

import (
	"net/http"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

// NewClient returns an http.Client whose calls obey the policies of c. Its
// fields may be set like those of any other, but leave Timeout at zero: a
// policy's total does its work.
func NewClient(c *clientlib.Client) *http.Client {
	return &http.Client{Transport: NewTransport(c, nil)}
}

// NewTransport returns the http.RoundTripper of a client's policies on top of
// base; nil means a copy of http.DefaultTransport that checks the health of its
// HTTP/2 connections. What base does by itself, such as a timeout of its own, it
// goes on doing.
func NewTransport(c *clientlib.Client, base http.RoundTripper) *Transport {
	c.UseAdapter(capability.NetHTTP())
	return New(c.Engine(), base)
}
