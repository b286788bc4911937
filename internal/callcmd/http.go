package callcmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// httpPeer is called through net/http.
type httpPeer struct {
	options *Options
	base    *http.Transport
	client  *http.Client
	clock   clock.Clock
}

func newHTTPPeer(o *Options, c *clientlib.Client) (*httpPeer, error) {
	if _, err := o.request(context.Background()); err != nil {
		return nil, err
	}
	base, err := o.transport()
	if err != nil {
		return nil, err
	}
	return &httpPeer{options: o, base: base, client: &http.Client{Transport: nethttp.NewTransport(c, base)}, clock: c.Engine().Clock()}, nil
}

func (p *httpPeer) close() { p.base.CloseIdleConnections() }

func (p *httpPeer) call(ctx context.Context, w *watch) error {
	req, err := p.options.request(ctx)
	if err != nil {
		return err
	}
	w.calls(req.Method, req.URL.Redacted())
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	headers := p.clock.Now()
	p.options.hold(ctx, p.clock)
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	w.gotBody(resp.StatusCode, Body{Bytes: n, Took: Millis(p.clock.Now().Sub(headers))}, err)
	return err
}

func (o *Options) request(ctx context.Context) (*http.Request, error) {
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
	if req.URL.Host == "" {
		return nil, fmt.Errorf("%q is no URL to call: it has no host", o.URL)
	}
	for name, values := range o.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

// transport is one of its own, so that nothing that happened before is reused.
func (o *Options) transport() (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if o.HTTP2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	pool, err := o.trusted()
	if err != nil {
		return nil, err
	}
	if pool != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if o.ConnectTo == "" {
		return t, nil
	}
	dialer := &net.Dialer{}
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, o.ConnectTo)
	}
	return t, nil
}
