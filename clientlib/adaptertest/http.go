package adaptertest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
)

// HTTPServer is the server half of the peer of an HTTP adapter: it knows every
// feature of this package that a server can have. What is left to the adapter is
// to send the requests that [HTTPServer.Request] describes.
type HTTPServer struct {
	t      testing.TB
	origin clienttest.Origin
	url    string

	mu          sync.Mutex
	seen        []Seen
	connections map[net.Conn]int
	forgotten   map[int]bool
	special     map[Feature]string
	asked       map[Feature]int
	left        atomic.Int64
	// closing ends what waits for the sake of a client, also one that it cannot
	// see leave.
	closing chan struct{}
}

// NewHTTPServer starts a server on loopback that ends with t. With Setup.HTTP2 it
// speaks HTTP/2 without TLS to clients with prior knowledge, else HTTP/1.1.
func NewHTTPServer(t testing.TB, s Setup) *HTTPServer {
	t.Helper()
	h := &HTTPServer{
		t: t, connections: map[net.Conn]int{}, forgotten: map[int]bool{},
		special: map[Feature]string{}, asked: map[Feature]int{}, closing: make(chan struct{}),
	}
	server := httptest.NewUnstartedServer(h)
	var protocols http.Protocols
	protocols.SetHTTP1(!s.HTTP2)
	protocols.SetUnencryptedHTTP2(s.HTTP2)
	server.Config.Protocols = &protocols
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.ConnContext = h.connect
	server.Start()
	t.Cleanup(func() {
		close(h.closing)
		server.CloseClientConnections()
		server.Close()
	})
	h.url = server.URL
	return h
}

type connectionKey struct{}

func (h *HTTPServer) connect(ctx context.Context, c net.Conn) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connections[c] = len(h.connections) + 1
	return context.WithValue(ctx, connectionKey{}, h.connections[c])
}

// HTTPRequest is a request that a peer has to send.
type HTTPRequest struct {
	Method string
	URL    string
	// Header is not nil.
	Header http.Header
	// Body of the request, nil for none. Where the library may have it again, it
	// is a *strings.Reader.
	Body io.Reader
	// Length of the body, -1 where it is not known beforehand.
	Length int64
}

// Request turns a call into a request. [Odd] is left to the peer's client: its
// request is one like [Answers].
func (h *HTTPServer) Request(call Call) HTTPRequest {
	r := HTTPRequest{Method: http.MethodGet, URL: h.address(call), Header: http.Header{}}
	if call.Key {
		r.Header.Set("Idempotency-Key", "7")
	}
	if call.PassedOn != "" {
		r.Header.Set(DeadlineHeader, call.PassedOn)
	}
	switch {
	case call.Does == BadBody:
		r.Body, r.Length = badBody{}, -1
	case call.Does == Unread:
		r.Body, r.Length = io.LimitReader(endless{}, hugeBody), hugeBody
	case call.Body != "" && call.Opaque:
		r.Body, r.Length = struct{ io.Reader }{strings.NewReader(call.Body)}, -1
	case call.Body != "":
		r.Body, r.Length = strings.NewReader(call.Body), int64(len(call.Body))
	}
	switch {
	case call.Once:
		r.Method = http.MethodPost
	case r.Body != nil:
		r.Method = http.MethodPut
	}
	return r
}

// Text takes the envelope off the body of a response to a call, if it has one.
func Text(call Call, body string) string {
	if call.Does != Streams {
		return body
	}
	return strings.NewReplacer("data: ", "", "\n", "").Replace(body)
}

// hugeBody is more than any buffer between client and server holds.
const hugeBody = 64 << 20

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

var errBadBody = errors.New("the test's body cannot be read")

type badBody struct{}

func (badBody) Read([]byte) (int, error) { return 0, errBadBody }

// Seen implements Peer.
func (h *HTTPServer) Seen() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Seen(nil), h.seen...)
}

// Left implements Peer.
func (h *HTTPServer) Left() int { return int(h.left.Load()) }

// address is where a call goes; some features have a server of their own.
func (h *HTTPServer) address(call Call) string {
	switch call.Does {
	case Unreachable, Stalls, Untrusted, Declines:
		return h.specially(call)
	case Unnamed:
		return "http://" + UnknownHost + "/"
	}
	q := url.Values{}
	q.Set("does", string(call.Does))
	q.Set("delay", call.Delay.String())
	q.Set("every", call.Every.String())
	q.Set("n", strconv.Itoa(call.Pieces))
	q.Set("times", strconv.Itoa(call.Times))
	if call.RetryAfter > 0 {
		q.Set("retry_after", strconv.Itoa(int((call.RetryAfter+time.Second-1)/time.Second)))
	}
	return h.url + "/call?" + q.Encode()
}

func (h *HTTPServer) specially(call Call) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u, there := h.special[call.Does]; there {
		return u
	}
	u := ""
	switch call.Does {
	case Unreachable:
		u = "http://" + DeadAddress(h.t)
	case Stalls:
		u = "https://" + StallingAddress(h.t, call.Delay)
	case Untrusted:
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		h.t.Cleanup(s.Close)
		u = s.URL
	case Declines:
		u = "http://" + h.declining(call.Times)
	}
	h.special[call.Does] = u
	return u
}

// declining returns the address of an HTTP/2 server that refuses streams.
func (h *HTTPServer) declining(times int) string {
	f := &clienttest.FrameServer{React: func(s *clienttest.Stream) {
		h.note(Declines, Seen{Deadline: -1})
		if times == 0 || s.Number <= times {
			s.Reset(clienttest.H2RefusedStream)
			return
		}
		s.Headers(false)
		s.Data("ok", true)
	}}
	l := listen(h.t)
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(l) }()
	h.t.Cleanup(func() {
		_ = l.Close()
		if err := <-ended; err != nil {
			h.t.Errorf("server of frames: %v", err)
		}
	})
	return l.Addr().String()
}

// note counts a request, and returns where it stands among all, from 0, and how
// many asked for the same, it included.
func (h *HTTPServer) note(does Feature, s Seen) (index, number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, s)
	h.asked[does]++
	return len(h.seen) - 1, h.asked[does]
}
