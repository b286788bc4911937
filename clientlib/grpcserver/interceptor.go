package grpcserver

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// ServerOptions returns both interceptors as options of grpc.NewServer, chained
// behind those that the program has already.
func ServerOptions(opts ...deadline.Option) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(UnaryInterceptor(opts...)),
		grpc.ChainStreamInterceptor(StreamInterceptor(opts...)),
	}
}

// UnaryInterceptor makes the deadline that a call brought the ambient budget of
// its handler. Unless an option says whom it trusts, only peers with an address
// that the internet does not route can set one, see [deadline.TrustPrefixes].
func UnaryInterceptor(opts ...deadline.Option) grpc.UnaryServerInterceptor {
	r := deadline.NewReader(opts...)
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, done, refused := r.Begin(incoming(ctx))
		defer done()
		if refused {
			return nil, errSpent
		}
		return handler(ctx, req)
	}
}

// StreamInterceptor is UnaryInterceptor for streams. The budget is that of the
// whole stream, from its beginning.
func StreamInterceptor(opts ...deadline.Option) grpc.StreamServerInterceptor {
	r := deadline.NewReader(opts...)
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		given := &served{stream.Context()}
		ctx, done, refused := r.Begin(incoming(given))
		defer done()
		if refused {
			return errSpent
		}
		if ctx != context.Context(given) {
			stream = &budgeted{ServerStream: stream, ctx: ctx}
		}
		return handler(srv, stream)
	}
}

var errSpent = status.Error(codes.DeadlineExceeded, "the deadline of the request has passed")

// served is the context of a stream as something that can be compared: that of an
// interceptor before this one need not be.
type served struct{ context.Context }

// budgeted is a stream with the budget in its context.
type budgeted struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *budgeted) Context() context.Context { return s.ctx }

func incoming(ctx context.Context) *deadline.Incoming {
	in := &deadline.Incoming{
		Context:  ctx,
		Protocol: "grpc",
		Values:   func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) },
	}
	in.Deadline, _ = ctx.Deadline()
	if p, ok := peer.FromContext(ctx); ok {
		in.Addr = addr(p.Addr)
	}
	return in
}

func addr(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return a.AddrPort().Addr().WithZone("").Unmap()
	default:
		return deadline.ParseAddr(a.String())
	}
}
