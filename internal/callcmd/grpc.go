package callcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

// adapterGRPC is what the gRPC adapter calls itself in events.
const adapterGRPC = "grpc"

// grpcPeer is called through grpc-go, with messages as they are on the wire.
type grpcPeer struct {
	options *Options
	conn    *grpc.ClientConn
	method  string // "/service/method"
	url     string
	message []byte
	clock   clock.Clock
}

func newGRPCPeer(o *Options, u *url.URL, c *clientlib.Client) (*grpcPeer, error) {
	if service, method, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/"); u.Host == "" || !ok || service == "" || method == "" || strings.Contains(method, "/") {
		return nil, fmt.Errorf("%q is no gRPC method to call: write grpc://HOST:PORT/package.Service/Method", o.URL)
	}
	if o.Method != "" {
		return nil, errors.New("gRPC has no HTTP method to choose; the path of the URL names the method")
	}
	p := &grpcPeer{options: o, method: u.Path, url: u.Redacted(), clock: c.Engine().Clock()}
	if o.Body != nil {
		var err error
		if p.message, err = io.ReadAll(o.Body); err != nil {
			return nil, fmt.Errorf("read the message: %w", err)
		}
	}
	secure, err := o.credentials(u.Scheme)
	if err != nil {
		return nil, err
	}
	target := "dns:///" + u.Host
	dial := append(grpcclient.DialOptions(c), grpc.WithTransportCredentials(secure))
	if o.ConnectTo != "" {
		target = "passthrough:///" + u.Host
		dial = append(dial, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", o.ConnectTo)
		}))
	}
	p.conn, err = grpc.NewClient(target, dial...)
	return p, err
}

func (o *Options) credentials(scheme string) (credentials.TransportCredentials, error) {
	pool, err := o.trusted()
	if err != nil || scheme == "grpc" {
		return insecure.NewCredentials(), err
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool}), nil
}

func (p *grpcPeer) close() { _ = p.conn.Close() }

func (p *grpcPeer) call(ctx context.Context, w *watch) error {
	w.calls(p.method, p.url)
	for name, values := range p.options.Header {
		for _, value := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	send := p.unary
	if p.options.Stream {
		send = p.stream
	}
	err := send(ctx, w)
	_, code := statusOf(adapterGRPC, int(status.Code(err)))
	w.answered(code)
	return err
}

func (p *grpcPeer) unary(ctx context.Context, w *watch) error {
	var reply []byte
	err := p.conn.Invoke(ctx, p.method, &p.message, &reply, grpc.ForceCodec(wire{}))
	if err == nil {
		w.gotBody(0, Body{Bytes: int64(len(reply)), Messages: 1}, nil)
	}
	return err
}

// stream sends the message and takes all responses. That the first one came is
// what headers are to HTTP.
func (p *grpcPeer) stream(ctx context.Context, w *watch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, p.method, grpc.ForceCodec(wire{}))
	if err != nil {
		return err
	}
	// An error of a send is io.EOF; the status comes from the receiving side.
	if err := s.SendMsg(&p.message); err == nil {
		_ = s.CloseSend()
	}
	var body Body
	began := p.clock.Now()
	for {
		var reply []byte
		if err = s.RecvMsg(&reply); err != nil {
			break
		}
		if body.Messages == 0 {
			began = p.clock.Now()
			p.options.hold(ctx, p.clock)
		}
		body.Messages++
		body.Bytes += int64(len(reply))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if body.Messages > 0 || err == nil {
		body.Took = Millis(p.clock.Now().Sub(began))
		w.gotBody(0, body, err)
	}
	return err
}

// wire is the codec of messages that are bytes already. It has the name of the
// usual one, since that is what they are.
type wire struct{}

func (wire) Name() string                  { return "proto" }
func (wire) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (wire) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}
