package grpcclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

func TestTheRecordIsTrue(t *testing.T) {
	t.Parallel()
	adaptertest.Run(t, adaptertest.Adapter{
		Record: capability.GRPC(),
		Open:   openPeer,
		Family: inFamily,
		Match:  `{"grpc":{"service":"shop.Orders"}}`,
		Lacks: map[adaptertest.Feature]string{
			adaptertest.Redirects:    "gRPC has no redirects",
			adaptertest.BoundedPool:  "a gRPC connection is one to all calls, not one of a pool",
			adaptertest.OpaqueBodies: "the message of a unary call is always at hand",
		},
	})
}

// inFamily asks as the users of gRPC do.
func inFamily(err error) error {
	s, ok := status.FromError(err)
	var e *clientlib.Error
	switch {
	case !ok:
		return errors.New("package status does not know it")
	case errors.As(err, &e) && e.Kind.Timeout() != (s.Code() == codes.DeadlineExceeded):
		return fmt.Errorf("the code is %s", s.Code())
	case errors.As(err, &e) && (e.Kind == kinds.Cancelled) != (s.Code() == codes.Canceled):
		return fmt.Errorf("the code is %s", s.Code())
	case s.Code() != status.Code(fmt.Errorf("wrapped: %w", err)):
		return errors.New("the code is lost where it is wrapped")
	}
	return nil
}

// peer is a server that misbehaves as each call asks, and connections to it.
type peer struct {
	t        testing.TB
	client   *clientlib.Client
	server   *trackingListener
	declines *rawServer

	mu    sync.Mutex
	conns map[adaptertest.Feature]*grpc.ClientConn
	seen  []adaptertest.Seen
	count map[string]int // by what was asked for
	left  int
}

func openPeer(t testing.TB, c *clientlib.Client, _ adaptertest.Setup) adaptertest.Peer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, client: c, conns: map[adaptertest.Feature]*grpc.ClientConn{}, count: map[string]int{}}
	p.server = &trackingListener{Listener: listener, conns: map[string]net.Conn{}}
	server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return p.serve(s) }))
	go func() { _ = server.Serve(p.server) }()
	t.Cleanup(func() {
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		server.Stop()
	})
	return p
}

// trackingListener knows the connections by the addresses of their clients.
type trackingListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[string]net.Conn
}

func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns[conn.RemoteAddr().String()] = conn
	}
	return conn, err
}

// cut closes the connection of a request.
func (l *trackingListener) cut(s grpc.ServerStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conns[addressOf(s)].Close()
}

func addressOf(s grpc.ServerStream) string {
	from, _ := grpcpeer.FromContext(s.Context())
	return from.Addr.String()
}

// order is what a call asks of the server, in its metadata.
type order struct {
	adaptertest.Behaviour
	stream bool
}

func readOrder(s grpc.ServerStream) order {
	md, _ := metadata.FromIncomingContext(s.Context())
	text := func(key string) string { return strings.Join(md[key], "") }
	duration := func(key string) time.Duration { d, _ := time.ParseDuration(text(key)); return d }
	number := func(key string) int { n, _ := strconv.Atoi(text(key)); return n }
	return order{Behaviour: adaptertest.Behaviour{
		Does: adaptertest.Feature(text("does")), Delay: duration("delay"), Times: number("times"),
		Pieces: number("pieces"), Every: duration("every"), RetryAfter: duration("retry-after"),
	}}
}

func (p *peer) serve(s grpc.ServerStream) error {
	o := readOrder(s)
	port, _ := strconv.Atoi(addressOf(s)[strings.LastIndexByte(addressOf(s), ':')+1:])
	seen := adaptertest.Seen{Deadline: -1, Connection: port}
	seen.Header = strings.Join(metadata.ValueFromIncomingContext(s.Context(), adaptertest.DeadlineHeader), ", ")
	if end, ok := s.Context().Deadline(); ok {
		seen.Deadline = time.Until(end)
	}
	known := p.knows(port)
	index := p.note(seen)
	in := wrapperspb.String("")
	if o.Does != adaptertest.Unread {
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		p.mu.Lock()
		p.seen[index].Body = in.GetValue()
		p.mu.Unlock()
	}
	body := in.GetValue()
	if body == "" {
		body = "ok"
	}
	err := p.act(s, o, body, known)
	if s.Context().Err() != nil {
		p.mu.Lock()
		p.left++
		p.mu.Unlock()
	}
	return err
}

func (p *peer) knows(connection int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if s.Connection == connection {
			return true
		}
	}
	return false
}

func (p *peer) note(s adaptertest.Seen) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, s)
	return len(p.seen) - 1
}

// turn counts the requests of a kind.
func (p *peer) turn(does adaptertest.Feature) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[string(does)]++
	return p.count[string(does)]
}

func (p *peer) act(s grpc.ServerStream, o order, body string, known bool) error {
	answer := func() error { return s.SendMsg(wrapperspb.String(body)) }
	switch o.Does {
	case adaptertest.Waits, adaptertest.Unread:
		if err := pause(s, o.Delay); err != nil {
			return err
		}
	case adaptertest.Fails:
		if n := p.turn(o.Does); o.Times == 0 || n <= o.Times {
			if o.RetryAfter > 0 {
				s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(o.RetryAfter.Milliseconds(), 10)))
			}
			return status.Error(codes.Unavailable, "as told")
		}
	case adaptertest.Refuses:
		return status.Error(codes.InvalidArgument, "as told")
	case adaptertest.Breaks:
		return status.Error(codes.Internal, "as told")
	case adaptertest.Drips, adaptertest.Streams:
		return drips(o.Pieces, o.Every)(0, s)
	case adaptertest.Stops:
		for range o.Pieces {
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				return err
			}
		}
		return pause(s, o.Delay)
	case adaptertest.Resets:
		p.server.cut(s)
		return nil
	case adaptertest.Cuts:
		if err := answer(); err != nil {
			return err
		}
		_ = pause(s, 50*time.Millisecond)
		p.server.cut(s)
		return nil
	case adaptertest.Forgets:
		if known {
			p.server.cut(s)
			return nil
		}
	}
	return answer()
}

func (p *peer) Seen() []adaptertest.Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]adaptertest.Seen(nil), p.seen...)
}

func (p *peer) Left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

func (p *peer) Do(ctx context.Context, call adaptertest.Call) adaptertest.Result {
	ctx = metadata.AppendToOutgoingContext(call.Context(ctx), "does", string(call.Does), "delay", call.Delay.String(), "times", strconv.Itoa(call.Times),
		"pieces", strconv.Itoa(call.Pieces), "every", call.Every.String(), "retry-after", call.RetryAfter.String())
	if !call.Once || call.Key {
		// Every RPC is a POST: this is what makes one that may be repeated.
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", "7")
	}
	if call.PassedOn != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, adaptertest.DeadlineHeader, call.PassedOn)
	}
	var body string
	var err error
	switch call.Does {
	case adaptertest.Drips, adaptertest.Streams, adaptertest.Stops, adaptertest.Cuts:
		body, err = p.stream(ctx, call)
	default:
		body, err = p.unary(ctx, call)
	}
	var own *clientlib.Error
	switch {
	case err == nil:
		return adaptertest.Result{Body: body}
	case errors.As(err, &own):
		return adaptertest.Result{Err: err, Status: -1, Body: body}
	default:
		return adaptertest.Result{Status: int(status.Code(err)), Body: body}
	}
}

const hugeBody = 16 << 20

func (p *peer) unary(ctx context.Context, call adaptertest.Call) (string, error) {
	var request any = wrapperspb.String(call.Body)
	switch call.Does {
	case adaptertest.BadBody:
		request = "what no codec can write"
	case adaptertest.Unread:
		request = wrapperspb.String(strings.Repeat("x", hugeBody))
	}
	out := reply()
	err := p.conn(call).Invoke(ctx, get, request, out)
	return out.GetValue(), err
}

func (p *peer) stream(ctx context.Context, call adaptertest.Call) (string, error) {
	s, err := p.conn(call).NewStream(ctx, serverStream, watch)
	if err != nil {
		return "", err
	}
	if err := s.SendMsg(wrapperspb.String(call.Body)); err != nil {
		return "", err
	}
	var body strings.Builder
	for {
		out := reply()
		if err := s.RecvMsg(out); err == io.EOF {
			return body.String(), nil
		} else if err != nil {
			return body.String(), err
		}
		body.WriteString(out.GetValue())
	}
}

// conn returns the connection for what a call asks for.
func (p *peer) conn(call adaptertest.Call) *grpc.ClientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := call.Does
	switch kind {
	case adaptertest.Unreachable, adaptertest.Stalls, adaptertest.Unnamed, adaptertest.Untrusted, adaptertest.Odd, adaptertest.Panics, adaptertest.Garbles, adaptertest.Declines:
	default:
		kind = adaptertest.Answers
	}
	if c := p.conns[kind]; c != nil {
		return c
	}
	target, opts := p.target(kind, call)
	opts = append(append(grpcclient.DialOptions(p.client), grpc.WithTransportCredentials(insecure.NewCredentials())), opts...)
	c, err := grpc.NewClient(target, opts...)
	if err != nil {
		p.t.Errorf("a connection of the peer: %v", err)
	}
	p.conns[kind] = c
	if kind == adaptertest.Answers {
		p.connect(c)
	}
	return c
}

// connect makes a connection ready, as it usually is when a call is made: the
// limits of the battery are shorter than a dial may take.
func (p *peer) connect(c *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c.Connect()
	for state := c.GetState(); state != connectivity.Ready; state = c.GetState() {
		if !c.WaitForStateChange(ctx, state) {
			p.t.Errorf("the peer's connection is %s", state)
			return
		}
	}
}

func (p *peer) target(kind adaptertest.Feature, call adaptertest.Call) (string, []grpc.DialOption) {
	secure := grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
	switch kind {
	case adaptertest.Unreachable:
		return "passthrough:///" + adaptertest.DeadAddress(p.t), nil
	case adaptertest.Stalls:
		// The library's own limit on a dial.
		slow := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: time.Second})
		return "passthrough:///" + adaptertest.StallingAddress(p.t, call.Delay), []grpc.DialOption{secure, slow}
	case adaptertest.Unnamed:
		return "dns:///" + adaptertest.UnknownHost + ":80", nil
	case adaptertest.Untrusted:
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.EnableHTTP2 = true
		s.StartTLS()
		p.t.Cleanup(s.Close)
		return "passthrough:///" + s.Listener.Addr().String(), []grpc.DialOption{secure}
	case adaptertest.Odd:
		odd := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return errors.New("an interceptor of the test's own")
		}
		return "passthrough:///" + p.server.Addr().String(), []grpc.DialOption{grpc.WithChainUnaryInterceptor(odd)}
	case adaptertest.Panics:
		fragile := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			panic("of the test's own")
		}
		return "passthrough:///" + p.server.Addr().String(), []grpc.DialOption{grpc.WithChainUnaryInterceptor(fragile)}
	case adaptertest.Garbles:
		s := startRaw(p.t, func(r *rawRequest) {
			r.headers(false, ":status", "200", "content-type", "text/html")
			_ = r.framer.WriteData(r.id, true, []byte("<html>"))
		})
		return "passthrough:///" + s.address, nil
	case adaptertest.Declines:
		s := startRaw(p.t, func(r *rawRequest) {
			p.note(adaptertest.Seen{Deadline: r.left()})
			if call.Times == 0 || r.number <= call.Times {
				r.reset(http2.ErrCodeRefusedStream)
				return
			}
			r.begin()
			r.message(wrapperspb.String("ok"))
			r.end("0", "")
		})
		return "passthrough:///" + s.address, nil
	default:
		return "passthrough:///" + p.server.Addr().String(), nil
	}
}
