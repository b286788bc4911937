// Package callcmd makes calls under a document, through the very engine and
// adapters that workloads use, and tells attempt by attempt what came of them.
// It is behind "kubectl timeouts call".
package callcmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// Options say what is called and how. Document and URL are required.
type Options struct {
	// Document to call under at first; it must have passed its validation.
	Document *document.Document
	// URL to call: http or https, or grpc or grpcs with /service/method as path.
	URL string
	// Method of the request. Empty means GET, or POST where there is a body. gRPC
	// has none.
	Method string
	// Header of the request, or its metadata.
	Header http.Header
	// Body of the request; nil for none; on gRPC the message as it is on the wire,
	// nil for an empty one. A *bytes.Reader or *strings.Reader can
	// be sent again, any other reader as far as the policy lets it be kept.
	Body io.Reader
	// Idempotent is the call site's word on whether the call may be repeated;
	// nil leaves it to the policy.
	Idempotent *bool
	// Route is the call site's route template.
	Route string
	// Timeout is the deadline of the caller's context; 0 for none.
	Timeout time.Duration
	// Budget is what is left of the request being served; 0 for none.
	Budget time.Duration
	// Detach makes the call in work that outlives the request being served, so
	// that Budget does not hold for it.
	Detach bool
	// HoldBody is how long the body of the response is left alone before it is
	// read, as by a program that forgets it; 0 for not at all.
	HoldBody time.Duration
	// ConnectTo is the host and port to connect to instead of the URL's, for a
	// forwarded port. Empty for the URL's own.
	ConnectTo string
	// CACerts are certificates, in PEM, that TLS trusts instead of the system's.
	CACerts []byte
	// Stream says that the gRPC method streams its responses.
	Stream bool
	// HTTP2 speaks HTTP/2 to http URLs too, without asking; https negotiates it.
	HTTP2 bool
	// Attempted, if set, is called with each attempt as it ends.
	Attempted func(Attempt)
}

// Caller makes calls one after another. They share what outlives a call:
// connections, circuit breaker and retry budget. Use may be called at any time,
// the rest by one goroutine at a time.
type Caller struct {
	options Options
	client  *clientlib.Client
	peer    peer
	watcher watcher
}

// peer is what calls are made to, by one adapter.
type peer interface {
	// call makes a call and tells the watch about the body of what came back.
	call(ctx context.Context, w *watch) error
	close()
}

// NewCaller returns a caller that has not called yet. An error means that a call
// could not be tried, since the options are wrong.
func NewCaller(o Options) (*Caller, error) {
	if o.Document == nil {
		return nil, errors.New("there is no document to call under")
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if o.ConnectTo != "" {
		if _, _, err := net.SplitHostPort(o.ConnectTo); err != nil {
			return nil, fmt.Errorf("connect to %q: write HOST:PORT: %w", o.ConnectTo, err)
		}
	}
	c := &Caller{options: o}
	// Documents go straight to the engine, so that a call shows what they do even
	// where a workload would refuse them.
	c.client, err = clientlib.New(context.Background(), "call", clientlib.WithSource(source.Static(nil)), clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)), clientlib.WithTracer(&c.watcher), clientlib.WithObserver(&c.watcher))
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http", "https":
		c.peer, err = newHTTPPeer(&c.options, c.client)
	case "grpc", "grpcs":
		c.peer, err = newGRPCPeer(&c.options, u, c.client)
	default:
		err = fmt.Errorf("%q is no URL to call: write http://HOST/…, https://HOST/… or grpc://HOST/SERVICE/METHOD", o.URL)
	}
	if err != nil {
		return nil, errors.Join(err, c.client.Close())
	}
	c.Use(o.Document)
	return c, nil
}

// Use puts another document in force for the calls that begin from now on. It
// must have passed its validation.
func (c *Caller) Use(doc *document.Document) {
	c.watcher.swap(doc, func() { c.client.Engine().Swap(doc) })
}

// Close ends the connections.
func (c *Caller) Close() {
	c.peer.close()
	_ = c.client.Close()
}

// Call makes a call. Whether it succeeded is in the result.
func (c *Caller) Call(ctx context.Context) *Result {
	ctx, end := c.options.context(ctx)
	defer end()
	watch := c.watcher.begin(c.options.Attempted)
	defer c.watcher.started() // also of a call that came to nothing before
	clock := c.client.Engine().Clock()
	began := clock.Now()
	err := c.peer.call(ctx, watch)
	return watch.result(clock.Now().Sub(began), err)
}

// Call makes one call with a caller of its own. An error means that it could not
// be tried, since the options are wrong; whether it succeeded is in the result.
func Call(ctx context.Context, o Options) (*Result, error) {
	c, err := NewCaller(o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Call(ctx), nil
}

// context adds what a call site and its surroundings would have said.
func (o *Options) context(ctx context.Context) (context.Context, func()) {
	call := engine.CallOptions{Route: o.Route}
	if o.Idempotent != nil {
		call.Vouch = engine.VouchOnce
		if *o.Idempotent {
			call.Vouch = engine.VouchIdempotent
		}
	}
	ctx = engine.WithCallOptions(ctx, call)
	if o.Budget > 0 {
		ctx = deadline.With(ctx, o.Budget)
	}
	end := func() {}
	if o.Detach {
		ctx, end = detach(ctx)
	}
	if o.Timeout <= 0 {
		return ctx, end
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	return ctx, func() { cancel(); end() }
}

// detach leaves the budget behind, but not what ends the program.
func detach(ctx context.Context) (context.Context, func()) {
	detached, cancel := context.WithCancel(deadline.Detach(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return detached, func() { stop(); cancel() }
}

// hold leaves the body of a response alone as asked.
func (o *Options) hold(ctx context.Context, c clock.Clock) {
	if o.HoldBody <= 0 {
		return
	}
	timer := c.NewTimer(o.HoldBody)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// trusted are the certificates of CACerts; nil for those of the system.
func (o *Options) trusted() (*x509.CertPool, error) {
	if len(o.CACerts) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(o.CACerts) {
		return nil, errors.New("there is no certificate in PEM among those to trust")
	}
	return pool, nil
}

// kindName is the API spelling, empty for what succeeded.
func kindName(ok bool, k failure.Kind) string {
	if ok {
		return ""
	}
	return k.String()
}
