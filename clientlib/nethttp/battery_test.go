package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

func TestTheRecordOfNetHTTPIsTrue(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Record: capability.NetHTTP(),
		Open:   openPeer,
		Family: func(err error) error {
			var family *url.Error
			if !errors.As(err, &family) {
				return errors.New("not a *url.Error")
			}
			return nil
		},
	})
}

// peer calls an adaptertest.HTTPServer by an http.Client.
type peer struct {
	*adaptertest.HTTPServer
	http, odd *http.Client
}

func openPeer(t testing.TB, c *clientlib.Client, s adaptertest.Setup) adaptertest.Peer {
	var protocols http.Protocols
	protocols.SetHTTP1(!s.HTTP2)
	protocols.SetUnencryptedHTTP2(s.HTTP2)
	base := &http.Transport{Protocols: &protocols, MaxConnsPerHost: s.Connections}
	odd := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a dialler of the test's own")
	}}
	t.Cleanup(base.CloseIdleConnections)
	return &peer{
		HTTPServer: adaptertest.NewHTTPServer(t, s),
		http:       &http.Client{Transport: nethttp.NewTransport(c, base)},
		odd:        &http.Client{Transport: nethttp.NewTransport(c, odd)},
	}
}

func (p *peer) Do(ctx context.Context, call adaptertest.Call) adaptertest.Result {
	r := p.Request(call)
	req, err := http.NewRequestWithContext(call.Context(ctx), r.Method, r.URL, r.Body)
	if err != nil {
		return adaptertest.Result{Err: fmt.Errorf("the test's request: %w", err), Status: -1}
	}
	req.ContentLength = r.Length
	client := p.http
	if call.Does == adaptertest.Odd {
		client = p.odd
	}
	resp, err := client.Do(req)
	if err != nil {
		return adaptertest.Result{Err: err, Status: -1}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		// What the body says is ours; what http.Client says is a *url.Error.
		err = &url.Error{Op: "read", URL: r.URL, Err: err}
	}
	return adaptertest.Result{Err: err, Status: resp.StatusCode, Body: string(body)}
}
