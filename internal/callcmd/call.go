// Package callcmd makes calls under a document, through the very engine and
// adapter that workloads use, and tells attempt by attempt what came of them. It
// is behind "kubectl timeouts call".
package callcmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// Options say what is called and how. Document and URL are required.
type Options struct {
	// Document to call under at first; it must have passed its validation.
	Document *document.Document
	// URL to call, http or https.
	URL string
	// Method of the request. Empty means GET, or POST where there is a body.
	Method string
	Header http.Header
	// Body of the request; nil for none. A *bytes.Reader or *strings.Reader can
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
	// CACerts are certificates, in PEM, that https trusts instead of the system's.
	CACerts []byte
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
	base    *http.Transport
	client  *http.Client
	engine  *engine.Engine
	watcher watcher
}

// NewCaller returns a caller that has not called yet. An error means that a call
// could not be tried, since the options are wrong.
func NewCaller(o Options) (*Caller, error) {
	if _, err := o.request(context.Background()); err != nil {
		return nil, err
	}
	base, err := o.transport()
	if err != nil {
		return nil, err
	}
	c := &Caller{options: o, base: base}
	c.engine = engine.New(engine.Options{Tracer: &c.watcher, Observers: []engine.Observer{&c.watcher}})
	c.client = &http.Client{Transport: nethttp.New(c.engine, base)}
	c.Use(o.Document)
	return c, nil
}

// Use puts another document in force for the calls that begin from now on. It
// must have passed its validation.
func (c *Caller) Use(doc *document.Document) {
	c.watcher.swap(doc, func() { c.engine.Swap(doc) })
}

// Close ends the connections.
func (c *Caller) Close() { c.base.CloseIdleConnections() }

// Call makes a call. Whether it succeeded is in the result.
func (c *Caller) Call(ctx context.Context) *Result {
	req, err := c.options.request(ctx)
	if err != nil {
		return &Result{Error: err.Error()} // NewCaller made the same one
	}
	ctx, end := c.options.context(req.Context())
	defer end()
	watch := c.watcher.begin(c.options.Attempted)
	defer c.watcher.started() // also of a call that came to nothing before
	began := c.engine.Clock().Now()
	resp, err := c.client.Do(req.WithContext(ctx))
	if err == nil {
		err = c.read(ctx, resp, watch)
	}
	return watch.result(req, c.engine.Clock().Now().Sub(began), err)
}

// read takes the body of a response, after having left it alone as asked.
func (c *Caller) read(ctx context.Context, resp *http.Response, watch *watch) error {
	headers := c.engine.Clock().Now()
	if c.options.HoldBody > 0 {
		hold := c.engine.Clock().NewTimer(c.options.HoldBody)
		defer hold.Stop()
		select {
		case <-hold.C():
		case <-ctx.Done():
		}
	}
	var body Body
	n, err := io.Copy(io.Discard, resp.Body)
	body.Bytes, body.Took = n, Millis(c.engine.Clock().Now().Sub(headers))
	_ = resp.Body.Close()
	watch.gotBody(resp.StatusCode, body, err)
	return err
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

func (o *Options) request(ctx context.Context) (*http.Request, error) {
	if o.Document == nil {
		return nil, errors.New("there is no document to call under")
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL to call: write http://HOST/… or https://HOST/…", o.URL)
	}
	method := o.Method
	if method == "" && o.Body != nil {
		method = http.MethodPost
	}
	if again, ok := o.Body.(io.Seeker); ok {
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the body once more: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, o.URL, o.Body)
	if err != nil {
		return nil, err
	}
	for name, values := range o.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
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

// transport is one of its own, so that nothing that happened before is reused.
func (o *Options) transport() (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if o.HTTP2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	if len(o.CACerts) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(o.CACerts) {
			return nil, errors.New("there is no certificate in PEM among those to trust")
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if o.ConnectTo == "" {
		return t, nil
	}
	if _, _, err := net.SplitHostPort(o.ConnectTo); err != nil {
		return nil, fmt.Errorf("connect to %q: write HOST:PORT: %w", o.ConnectTo, err)
	}
	dialer := &net.Dialer{}
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, o.ConnectTo)
	}
	return t, nil
}

// kindName is the API spelling, empty for what succeeded.
func kindName(ok bool, k failure.Kind) string {
	if ok {
		return ""
	}
	return k.String()
}
