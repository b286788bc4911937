package grpcserver_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service keeps the context that each call is served with.
type service struct {
	health.UnimplementedHealthServer
	contexts chan context.Context
}

func (s *service) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	s.contexts <- ctx
	return &health.HealthCheckResponse{}, nil
}

func (s *service) Watch(_ *health.HealthCheckRequest, stream grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	s.contexts <- stream.Context()
	return stream.Send(&health.HealthCheckResponse{})
}

// start serves on a listener until the test ends.
func start(t *testing.T, l net.Listener, opts ...deadline.Option) *service {
	t.Helper()
	s := &service{contexts: make(chan context.Context, 1)}
	server := grpc.NewServer(grpcserver.ServerOptions(opts...)...)
	health.RegisterHealthServer(server, s)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	return s
}

func connect(t *testing.T, target string, opts ...grpc.DialOption) health.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return health.NewHealthClient(conn)
}

// inMemory is a client and a server in the bubble of the test.
func inMemory(t *testing.T, opts ...deadline.Option) (health.HealthClient, *service) {
	l := bufconn.Listen(1 << 16)
	s := start(t, l, opts...)
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }
	return connect(t, "passthrough:///memory", grpc.WithContextDialer(dial)), s
}

// both makes a call of each shape.
var both = map[string]func(context.Context, health.HealthClient) error{
	"unary": func(ctx context.Context, c health.HealthClient) error {
		_, err := c.Check(ctx, &health.HealthCheckRequest{})
		return err
	},
	"stream": func(ctx context.Context, c health.HealthClient) error {
		stream, err := c.Watch(ctx, &health.HealthCheckRequest{})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	},
}

func TestTheDeadlineOfACallIsTheBudgetOfItsHandler(t *testing.T) {
	const none = -1
	header := metadata.Pairs
	for _, c := range []struct {
		name    string
		opts    []deadline.Option
		timeout time.Duration // of the caller, 0 for none
		sent    metadata.MD
		code    codes.Code
		has     time.Duration
		results string
	}{
		{"none", nil, 0, nil, codes.OK, none, ""},
		{"grpc-timeout", nil, 2 * time.Second, nil, codes.OK, 2 * time.Second, "grpc:accepted"},
		{"metadata", nil, 0, header("x-deadline-ms", "1500"), codes.OK, 1500 * time.Millisecond, "grpc:accepted"},
		{"the tighter of both", nil, 2 * time.Second, header("X-Deadline-Ms", "1500"), codes.OK, 1500 * time.Millisecond, "grpc:accepted"},
		{"grpc-timeout is the tighter", nil, time.Second, header("x-deadline-ms", "999999999999"), codes.OK, time.Second, "grpc:accepted"},
		{"Envoy's", nil, 2 * time.Second, header("x-envoy-expected-rq-timeout-ms", "500"), codes.OK, 500 * time.Millisecond, "grpc:accepted"},
		{"twice", nil, 2 * time.Second, header("x-deadline-ms", "1", "x-deadline-ms", "1"), codes.OK, 2 * time.Second, "grpc:malformed grpc:accepted"},
		{"hostile", nil, 2 * time.Second, header("x-deadline-ms", "-1"), codes.OK, 2 * time.Second, "grpc:malformed grpc:accepted"},
		{"more than the maximum", []deadline.Option{deadline.Maximum(time.Second)}, 2 * time.Second, nil, codes.OK, time.Second, "grpc:bounded"},
		{"nothing left", nil, 0, header("x-deadline-ms", "0"), codes.OK, 0, "grpc:spent"},
		{"nothing left is refused", []deadline.Option{deadline.RefuseSpent()}, 0, header("x-deadline-ms", "0"), codes.DeadlineExceeded, none, "grpc:spent"},
	} {
		for shape, call := range both {
			synctest.Test(t, func(t *testing.T) {
				seen := &clienttest.Deadlines{}
				client, service := inMemory(t, append(c.opts, deadline.TrustEveryone(), deadline.WithObserver(seen))...)
				ctx := metadata.NewOutgoingContext(t.Context(), c.sent)
				if c.timeout > 0 {
					limited, cancel := context.WithTimeout(ctx, c.timeout)
					defer cancel()
					ctx = limited
				}
				err := call(ctx, client)
				if status.Code(err) != c.code {
					t.Fatalf("%s, %s: %v", c.name, shape, err)
				}
				has, budget := time.Duration(none), false
				if c.code == codes.OK {
					if has, budget = deadline.Remaining(<-service.contexts); !budget {
						has = none
					}
				}
				if told := seen.Take(); has != c.has || told != c.results {
					t.Errorf("%s, %s: %s left, told %q, want %s and %q", c.name, shape, has, told, c.has, c.results)
				}
			})
		}
	}
}

// gRPC ends a handler's context at its grpc-timeout whoever sent it. Trust is
// about the budget; a peer without it cannot set one, and loses nothing.
func TestWithoutTrustADeadlineIsGRPCsAlone(t *testing.T) {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	elsewhere := netip.MustParsePrefix("10.0.0.0/8")
	for _, c := range []struct {
		name    string
		opts    []deadline.Option
		trusted bool
	}{
		{"nobody", []deadline.Option{deadline.TrustPrefixes()}, false},
		{"this machine by default", nil, true},
		{"somebody else", []deadline.Option{deadline.TrustPrefixes(elsewhere)}, false},
		{"this peer", []deadline.Option{deadline.TrustPrefixes(elsewhere, loopback)}, true},
	} {
		seen := &clienttest.Deadlines{}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		service := start(t, l, append(c.opts, deadline.RefuseSpent(), deadline.WithObserver(seen))...)
		client := connect(t, l.Addr().String())
		for shape, call := range both {
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-deadline-ms", "30000"), time.Minute)
			err := call(ctx, client)
			cancel()
			if err != nil {
				t.Fatalf("%s, %s: %v", c.name, shape, err)
			}
			served := <-service.contexts
			_, limited := served.Deadline()
			left, budget := deadline.Remaining(served)
			want := "grpc:untrusted"
			if c.trusted {
				want = "grpc:accepted"
			}
			if told := seen.Take(); !limited || budget != c.trusted || left > 30*time.Second || told != want {
				t.Errorf("%s, %s: gRPC's deadline %t, budget %s (%t), told %q", c.name, shape, limited, left, budget, told)
			}
		}
	}
}

// A trusted zero costs no handler; an untrusted one changes nothing.
func TestAnUntrustedPeerCannotHaveItselfRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, service := inMemory(t, deadline.RefuseSpent())
		if err := both["unary"](metadata.AppendToOutgoingContext(t.Context(), "x-deadline-ms", "0"), client); err != nil {
			t.Fatal(err)
		}
		if deadline.Has(<-service.contexts) {
			t.Error("it set a budget")
		}
	})
}

// uncomparable is a context that a program hands on by value.
type uncomparable struct {
	context.Context
	values []string
}

type uncomparableStream struct{ grpc.ServerStream }

func (s uncomparableStream) Context() context.Context {
	return uncomparable{s.ServerStream.Context(), []string{"mine"}}
}

// Two contexts of such a type cannot be asked whether they are the same one.
func TestTheContextOfAnotherInterceptorIsHandedOn(t *testing.T) {
	for _, sent := range []metadata.MD{nil, metadata.Pairs("x-deadline-ms", "1500")} {
		var served context.Context
		err := grpcserver.StreamInterceptor(deadline.TrustEveryone())(nil, uncomparableStream{stream{metadata.NewIncomingContext(t.Context(), sent)}},
			&grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error { served = s.Context(); return nil })
		if _, own := served.(uncomparable); err != nil || own != (sent == nil) || deadline.Has(served) == own {
			t.Errorf("with %v: %v, served with %T", sent, err, served)
		}
	}
}

type stream struct{ ctx context.Context }

func (s stream) Context() context.Context   { return s.ctx }
func (stream) SetHeader(metadata.MD) error  { return nil }
func (stream) SendHeader(metadata.MD) error { return nil }
func (stream) SetTrailer(metadata.MD)       {}
func (stream) SendMsg(any) error            { return nil }
func (stream) RecvMsg(any) error            { return nil }
