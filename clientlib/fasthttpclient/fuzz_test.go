package fasthttpclient_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// scripted is a connection to a server that says the same whatever it is asked, a
// few bytes at a time, and hangs up.
type scripted struct {
	net.Conn
	says  []byte
	piece int
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.says) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(1, c.piece))], c.says)
	c.says = c.says[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

// Whatever a server says, it means under a policy what it means to fasthttp, and
// its connection is kept or closed alike, but for bytes that nobody asked for.
func FuzzResponses(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-New: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
		"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
		"this is not HTTP\r\n\r\n",
		// Found by fuzzing: a trailer that is announced and never comes, a status that is none.
		"HTTP/0.0 000\nTrailer:0\r\n\r\n0",
		"HTTP/1.1 1 000\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n0\r\nX: 2\r\nY: 3\r\nY: 4\r\n\r\n",
	} {
		for piece := range 3 {
			f.Add([]byte(seed), piece*7, piece == 1)
		}
	}
	f.Fuzz(func(t *testing.T, says []byte, piece int, streamed bool) {
		base := &fasthttp.Client{
			StreamResponseBody: streamed, MaxResponseBodySize: 1 << 20, MaxIdemponentCallAttempts: 1, MaxIdleConnDuration: time.Millisecond,
			Dial: func(string) (net.Conn, error) { return &scripted{says: says, piece: piece}, nil },
		}
		b := newBench(t, rules(t, `"timeouts":{"total":"1m","attempt":"50s","responseHeader":"40s","bodyIdle":"30s"}`), base)
		var readings []reading
		for _, client := range []doer{base, b.client.Fasthttp()} {
			x := request("GET", "http://orders/")
			r := read(client, x.Request, x.Response)
			r.Conns = 0 // the cleaner is at work
			readings = append(readings, r)
		}
		base.CloseIdleConnections()
		if readings[0] != readings[1] {
			t.Errorf("fasthttp reads\n%+v\nunder a policy it is\n%+v", readings[0], readings[1])
		}
		if !readings[1].Err && (len(b.events.Bodies()) != 1 || len(b.events.Calls()) != 1) {
			t.Errorf("%d calls and %d bodies were told of", len(b.events.Calls()), len(b.events.Bodies()))
		}
	})
}
