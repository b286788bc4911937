package adaptertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// TestMain fails when a check leaves a goroutine behind. Checks wait far more than
// they compute, so more of them run at a time than there are processors.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m)
}

// Case A18.
func TestTheRecordOfNetHTTPIsTrue(t *testing.T) {
	t.Parallel()
	Run(t, netHTTP())
}

// netHTTP is the adapter for net/http.
func netHTTP() Adapter {
	return Adapter{Record: capability.NetHTTP(), Open: openNetHTTP, Family: isURLError}
}

func isURLError(err error) error {
	var family *url.Error
	if !errors.As(err, &family) {
		return errors.New("not a *url.Error")
	}
	return nil
}

// httpPeer calls an HTTPServer by an http.Client.
type httpPeer struct {
	*HTTPServer
	http, odd, fragile *http.Client
}

func openNetHTTP(t testing.TB, c *clientlib.Client, s Setup) Peer {
	return newHTTPPeer(t, s, func(base http.RoundTripper) http.RoundTripper { return nethttp.NewTransport(c, base) })
}

// newHTTPPeer puts something between http.Client and its transport.
func newHTTPPeer(t testing.TB, s Setup, wrap func(http.RoundTripper) http.RoundTripper) Peer {
	var protocols http.Protocols
	protocols.SetHTTP1(!s.HTTP2)
	protocols.SetUnencryptedHTTP2(s.HTTP2)
	base := &http.Transport{Protocols: &protocols, MaxConnsPerHost: s.Connections}
	odd := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a dialler of the test's own")
	}}
	t.Cleanup(base.CloseIdleConnections)
	return &httpPeer{
		HTTPServer: NewHTTPServer(t, s),
		http:       &http.Client{Transport: wrap(base)},
		odd:        &http.Client{Transport: wrap(odd)},
		fragile:    &http.Client{Transport: wrap(fragile{})},
	}
}

// fragile is a transport that panics.
type fragile struct{}

func (fragile) RoundTrip(*http.Request) (*http.Response, error) { panic("of the test's own") }

func (p *httpPeer) Do(ctx context.Context, call Call) Result {
	r := p.Request(call)
	req, err := http.NewRequestWithContext(call.Context(ctx), r.Method, r.URL, r.Body)
	if err != nil {
		return Result{Err: fmt.Errorf("the test's request: %w", err), Status: -1}
	}
	req.ContentLength = r.Length
	req.Header = r.Header
	client := p.http
	switch call.Does {
	case Odd:
		client = p.odd
	case Panics:
		client = p.fragile
	}
	resp, err := client.Do(req)
	if err != nil {
		return Result{Err: err, Status: -1}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		// What the body says is ours; what http.Client says is a *url.Error.
		err = &url.Error{Op: "read", URL: r.URL, Err: err}
	}
	return Result{Err: err, Status: resp.StatusCode, Body: Text(call, string(body))}
}
