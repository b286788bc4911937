package fasthttpclient

import (
	"context"
	"errors"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/valyala/fasthttp"
)

// adapterName is the metric label and the name in reports.
const adapterName = "fasthttp"

// Client makes calls with fasthttp under the policy in force. It is safe for
// concurrent use. Requests and responses are the caller's and belong to one call
// at a time, as always with fasthttp.
type Client struct {
	inner *fasthttp.Client
}

// New returns a Client on the policies of c. base says how connections are made
// and used; it is read once, not kept, and may go on being used for calls without
// a policy. nil means the defaults of fasthttp. The timeouts of base stay in force
// beside the policy; its retries work where no policy names the host, and are off
// where one does. A base with a Transport of its own is refused: that place is
// where the policy works.
func New(c *clientlib.Client, base *fasthttp.Client) (*Client, error) {
	own, err := newClient(c.Engine(), base)
	if err != nil {
		return nil, err
	}
	c.UseAdapter(capability.FastHTTP())
	return own, nil
}

var errTransport = errors.New("fasthttpclient: the client has a Transport of its own, which would go around the policy; leave Transport unset")

func newClient(e *engine.Engine, base *fasthttp.Client) (*Client, error) {
	if base == nil {
		base = &fasthttp.Client{}
	}
	if base.Transport != nil {
		return nil, errTransport
	}
	inner := copyOf(base)
	inner.ConfigureClient = func(hc *fasthttp.HostClient) error {
		h := newHost(e, hc)
		if base := base.ConfigureClient; base != nil {
			if err := base(hc); err != nil {
				return err
			}
		}
		return h.takeOver(hc)
	}
	return &Client{inner: inner}, nil
}

// copyOf copies what a program can set; a fasthttp.Client must not be copied whole.
func copyOf(c *fasthttp.Client) *fasthttp.Client {
	return &fasthttp.Client{
		Transport:                     c.Transport,
		DialTimeout:                   c.DialTimeout,
		Dial:                          c.Dial,
		TLSConfig:                     c.TLSConfig,
		RetryIf:                       c.RetryIf, //nolint:staticcheck // what the program set goes on working
		RetryIfErr:                    c.RetryIfErr,
		RetryIfErrUpstream:            c.RetryIfErrUpstream,
		ConfigureClient:               c.ConfigureClient,
		Name:                          c.Name,
		MaxConnsPerHost:               c.MaxConnsPerHost,
		MaxIdleConnDuration:           c.MaxIdleConnDuration,
		MaxConnDuration:               c.MaxConnDuration,
		MaxIdemponentCallAttempts:     c.MaxIdemponentCallAttempts,
		ReadBufferSize:                c.ReadBufferSize,
		WriteBufferSize:               c.WriteBufferSize,
		ReadTimeout:                   c.ReadTimeout,
		WriteTimeout:                  c.WriteTimeout,
		MaxResponseBodySize:           c.MaxResponseBodySize,
		MaxConnWaitTimeout:            c.MaxConnWaitTimeout,
		ConnPoolStrategy:              c.ConnPoolStrategy,
		NoDefaultUserAgentHeader:      c.NoDefaultUserAgentHeader,
		DialDualStack:                 c.DialDualStack,
		DisableHeaderNamesNormalizing: c.DisableHeaderNamesNormalizing,
		DisablePathNormalizing:        c.DisablePathNormalizing,
		StreamResponseBody:            c.StreamResponseBody,
	}
}

// Fasthttp returns the client underneath, for libraries that take one. Its calls
// obey the policies. They have the context of [SetContext], else none; a deadline
// that fasthttp itself was given (DoTimeout, DoDeadline, Request.SetTimeout) is
// the caller's. Its Get and Post helpers with a timeout leave a goroutine behind
// when that passes, as in fasthttp; the policy ends it. The client must not be
// changed.
func (c *Client) Fasthttp() *fasthttp.Client { return c.inner }

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.inner.CloseIdleConnections() }

// Do makes a call. It follows no redirects. resp may be nil where the response
// does not matter. Where response bodies are streamed, the call's limits go on
// until the stream was read to its end or closed.
func (c *Client) Do(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response) error {
	defer attach(ctx, req, false).detach(req)
	return c.inner.Do(req, resp)
}

// DoTimeout is Do with at most d for the call, from the caller and beside the
// policy. A d of zero or less has passed already: fasthttp.ErrTimeout.
func (c *Client) DoTimeout(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response, d time.Duration) error {
	return c.DoDeadline(ctx, req, resp, time.Now().Add(d)) //nolint:forbidigo // what fasthttp does with a timeout
}

// DoDeadline is DoTimeout for a point in time.
func (c *Client) DoDeadline(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response, deadline time.Time) error {
	defer attach(ctx, req, false).detach(req)
	before := req.GetTimeOut()
	defer req.SetTimeout(before)
	return c.inner.DoDeadline(req, resp, deadline)
}

// DoRedirects is Do, and follows a number of redirects at most in the way of
// fasthttp, which leaves req as the last hop had it. All hops are one call: one
// deadline, retry budget, breaker signal and event; attempts and ceilings are
// those of each hop's own policy.
func (c *Client) DoRedirects(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response, most int) error {
	who := attach(ctx, req, true)
	defer who.detach(req)
	err := c.inner.DoRedirects(req, resp, most)
	who.stayed()
	return err
}
