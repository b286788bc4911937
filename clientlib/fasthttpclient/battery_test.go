package fasthttpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/valyala/fasthttp"
)

// The two do not run beside other tests: their limits are short.
func TestTheRecordIsTrueOfBufferedBodies(t *testing.T) {
	adaptertest.Run(t, adapter(false))
}

func TestTheRecordIsTrueOfStreamedBodies(t *testing.T) {
	adaptertest.Run(t, adapter(true))
}

func adapter(streamed bool) adaptertest.Adapter {
	const noHTTP2 = "fasthttp speaks HTTP/1.1 only"
	lacks := map[adaptertest.Feature]string{adaptertest.OverHTTP2: noHTTP2, adaptertest.Declines: noHTTP2}
	if !streamed {
		lacks[adaptertest.Streams] = "a buffered stream is a body like any other: its caller has nothing of it before its end"
	}
	return adaptertest.Adapter{
		Record: capability.FastHTTP(),
		Open: func(t testing.TB, c *clientlib.Client, s adaptertest.Setup) adaptertest.Peer {
			return openPeer(t, c, s, streamed)
		},
		Lacks:      lacks,
		Family:     inFamily,
		Shortfalls: map[capability.Name]func(testing.TB){capability.DeadlineHard: waitsForABlockedBody},
	}
}

// inFamily asks as fasthttp's users do.
func inFamily(err error) error {
	var e *clientlib.Error
	if !errors.As(err, &e) || e.Timeout() != errors.Is(err, fasthttp.ErrTimeout) {
		return errors.New("a timeout of ours and a fasthttp.ErrTimeout are not the same")
	}
	return nil
}

type peer struct {
	*adaptertest.HTTPServer
	usual, odd, limited, fragile *fasthttpclient.Client
}

func openPeer(t testing.TB, c *clientlib.Client, s adaptertest.Setup, streamed bool) adaptertest.Peer {
	client := func(base *fasthttp.Client) *fasthttpclient.Client {
		base.StreamResponseBody = streamed
		own, err := fasthttpclient.New(c, base)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(own.CloseIdleConnections)
		return own
	}
	return &peer{
		HTTPServer: adaptertest.NewHTTPServer(t, s),
		usual:      client(&fasthttp.Client{MaxConnsPerHost: s.Connections, MaxConnWaitTimeout: time.Minute}),
		odd: client(&fasthttp.Client{Dial: func(string) (net.Conn, error) {
			return nil, errors.New("a dialler of the test's own")
		}}),
		fragile: client(&fasthttp.Client{Dial: func(string) (net.Conn, error) { panic("of the test's own") }}),
		limited: client(&fasthttp.Client{WriteTimeout: 80 * time.Millisecond}),
	}
}

func (p *peer) Do(ctx context.Context, call adaptertest.Call) adaptertest.Result {
	r := p.Request(call)
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(r.URL)
	req.Header.SetMethod(r.Method)
	for name := range r.Header {
		req.Header.Set(name, r.Header.Get(name))
	}
	switch body := r.Body.(type) {
	case nil:
	case *strings.Reader:
		text, _ := io.ReadAll(body)
		req.SetBody(text)
	default:
		req.SetBodyStream(body, int(r.Length))
	}
	client := p.usual
	switch call.Does {
	case adaptertest.Odd:
		client = p.odd
	case adaptertest.Panics:
		client = p.fragile
	case adaptertest.Unread:
		client = p.limited
	}
	if err := client.DoRedirects(call.Context(ctx), req, resp, 10); err != nil {
		return adaptertest.Result{Err: err, Status: statusOf(resp), Body: adaptertest.Text(call, string(resp.Body()))}
	}
	var body []byte
	var err error
	if resp.IsBodyStream() {
		body, err = io.ReadAll(resp.BodyStream())
	} else {
		body = resp.Body()
	}
	return adaptertest.Result{Err: err, Status: statusOf(resp), Body: adaptertest.Text(call, string(body))}
}

// statusOf tells a response that never came, which fasthttp takes for a 200.
func statusOf(resp *fasthttp.Response) int {
	if len(resp.Header.Protocol()) == 0 {
		return -1
	}
	return resp.StatusCode()
}

// waitsForABlockedBody shows what the record says of DeadlineHard: nobody but the
// call reads the caller's stream, so the call waits for it.
func waitsForABlockedBody(t testing.TB) {
	network := silentServer(t)
	b := newBench(t, rules(t, `"timeouts":{"total":"60ms"}`, "127.0.0.1"), nil)
	reading, resume := make(chan struct{}), make(chan struct{})
	returned := make(chan error, 1)
	x := request("PUT", "http://"+network)
	x.Request.SetBodyStream(readerFunc(func([]byte) (int, error) {
		close(reading)
		<-resume
		return 0, io.EOF
	}), -1)
	go func() { returned <- b.client.Do(t.Context(), x.Request, x.Response) }()
	<-reading
	late := time.NewTimer(120 * time.Millisecond)
	defer late.Stop()
	select {
	case err := <-returned:
		t.Errorf("the call returned while its body was being read: %v", err)
		close(resume)
		return
	case <-late.C:
	}
	close(resume)
	if e := failureOf(t, <-returned); e.Kind != kinds.TotalTimeout {
		t.Errorf("%v, want TotalTimeout", e)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
