package httpclients

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/url"
	"testing"

	restyv2 "github.com/go-resty/resty/v2"
	"go.uber.org/goleak"
	restyv3 "resty.dev/v3"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// TestMain fails when a test leaves a goroutine behind. fasthttp's cleaners look
// every few seconds whether they can end.
func TestMain(m *testing.M) {
	// They wait far more than they compute.
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

// send makes one call by a library.
type send func(ctx context.Context, r adaptertest.HTTPRequest) adaptertest.Result

// A library on top of net/http that takes an http.Client does all that net/http's
// adapter does.
func TestResty2DoesWhatNetHTTPDoes(t *testing.T) {
	a := onNetHTTP(resty2)
	const why = "resty v2 reads the body of a request before it makes the request"
	a.Lacks = map[adaptertest.Feature]string{
		adaptertest.OpaqueBodies: why, adaptertest.BadBody: why, adaptertest.Unread: why,
		adaptertest.Declines: why + ", so that net/http repeats by itself what was refused",
	}
	a.Record.Emits &^= failure.NewSet(failure.BodyError, failure.Unprocessed)
	adaptertest.Run(t, a)
}

func TestResty3DoesWhatNetHTTPDoes(t *testing.T) { adaptertest.Run(t, onNetHTTP(resty3)) }

func resty2(t testing.TB, hc *http.Client) send {
	client := restyv2.NewWithClient(hc)
	return func(ctx context.Context, r adaptertest.HTTPRequest) adaptertest.Result {
		req := client.R().SetContext(ctx)
		req.Header = r.Header
		if r.Body != nil {
			req.SetBody(r.Body)
		}
		resp, err := req.Execute(r.Method, r.URL)
		if resp == nil {
			return result(0, "", err)
		}
		return result(resp.StatusCode(), resp.String(), err)
	}
}

func resty3(t testing.TB, hc *http.Client) send {
	client := restyv3.NewWithClient(hc)
	t.Cleanup(func() { _ = client.Close() })
	return func(ctx context.Context, r adaptertest.HTTPRequest) adaptertest.Result {
		req := client.R().SetContext(ctx)
		req.Header = r.Header
		if r.Body != nil {
			req.SetBody(r.Body)
		}
		resp, err := req.Execute(r.Method, r.URL)
		return result(resp.StatusCode(), resp.String(), err)
	}
}

func result(status int, text string, err error) adaptertest.Result {
	if status == 0 {
		status = -1
	}
	return adaptertest.Result{Err: err, Status: status, Body: text}
}

// onNetHTTP is a library on top of net/http under net/http's own record.
func onNetHTTP(library func(testing.TB, *http.Client) send) adaptertest.Adapter {
	return adaptertest.Adapter{
		Record: capability.NetHTTP(),
		Open: func(t testing.TB, c *clientlib.Client, s adaptertest.Setup) adaptertest.Peer {
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
				usual:      library(t, &http.Client{Transport: nethttp.NewTransport(c, base)}),
				odd:        library(t, &http.Client{Transport: nethttp.NewTransport(c, odd)}),
				fragile:    library(t, &http.Client{Transport: nethttp.NewTransport(c, fragile{})}),
			}
		},
		Family: func(err error) error {
			// What http.Client says, or what reading the body says, which resty hands
			// on as it is.
			var family *url.Error
			var body *failure.Error
			if errors.As(err, &family) || errors.As(err, &body) && body.Attempts > 0 {
				return nil
			}
			return errors.New("not an error of http.Client or of a body")
		},
	}
}

// peer calls a misbehaving server by a library.
type peer struct {
	*adaptertest.HTTPServer
	usual, odd, fragile send
}

// fragile is a transport that panics.
type fragile struct{}

func (fragile) RoundTrip(*http.Request) (*http.Response, error) { panic("of the test's own") }

func (p *peer) Do(ctx context.Context, call adaptertest.Call) adaptertest.Result {
	send := p.usual
	switch call.Does {
	case adaptertest.Odd:
		send = p.odd
	case adaptertest.Panics:
		send = p.fragile
	}
	r := send(call.Context(ctx), p.Request(call))
	r.Body = adaptertest.Text(call, r.Body)
	return r
}
