package grpcclient_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

const (
	get    = "/shop.Orders/Get"
	watch  = "/shop.Orders/Watch"
	upload = "/shop.Orders/Upload"
	chat   = "/shop.Orders/Chat"
)

var (
	serverStream = &grpc.StreamDesc{StreamName: "Watch", ServerStreams: true}
	clientStream = &grpc.StreamDesc{StreamName: "Upload", ClientStreams: true}
	bothStreams  = &grpc.StreamDesc{StreamName: "Chat", ClientStreams: true, ServerStreams: true}
)

// rules writes the rules of the upstream "orders" into a document.
func rules(t testing.TB, rules string) *document.Document { return policytest.Rules(t, rules) }

// answer is what a server does with an RPC; it sees the number of the RPC, 1 for
// the first.
type answer func(n int, s grpc.ServerStream) error

// bench is a client of one policy and a server that does as it is told.
type bench struct {
	t      testing.TB
	ctx    context.Context
	client *clientlib.Client
	conn   *grpc.ClientConn
	server *grpc.Server
	events *policytest.Events
	timers *clienttest.Timers
	start  time.Time

	mu     sync.Mutex
	answer answer
	seen   []seen
	dials  int
	// refusing says that nothing listens.
	refusing bool
	listen   *bufconn.Listener
}

// seen is an RPC as the server saw it.
type seen struct {
	method string
	md     metadata.MD
	// left is what grpc-timeout said, negative for nothing.
	left time.Duration
}

// setup changes a bench before it is made.
type setup struct {
	doc     *document.Document
	answer  answer
	options []clientlib.Option
	own     []grpcclient.Option
	dial    []grpc.DialOption
	target  string
}

// newBench makes a server in memory and a client of it.
func newBench(t testing.TB, s setup) *bench {
	t.Helper()
	b := &bench{t: t, ctx: t.Context(), answer: s.answer, events: &policytest.Events{}, timers: &clienttest.Timers{}, listen: bufconn.Listen(1 << 16)}
	b.client = policytest.NewClient(t, s.doc, b.events, b.timers, s.options...)
	b.server = grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return b.serve(stream) }))
	go func() { _ = b.server.Serve(b.listen) }()
	target := s.target
	if target == "" {
		target = "passthrough:///orders:8080"
	}
	dial := append(grpcclient.DialOptions(b.client, s.own...),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0), grpc.WithContextDialer(b.dial))
	var err error
	b.conn, err = grpc.NewClient(target, append(dial, s.dial...)...)
	if err != nil {
		t.Fatal(err)
	}
	b.start = time.Now()
	return b
}

func (b *bench) dial(ctx context.Context, _ string) (net.Conn, error) {
	b.mu.Lock()
	b.dials++
	refusing := b.refusing
	b.mu.Unlock()
	if refusing {
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: syscall.ECONNREFUSED}
	}
	return b.listen.DialContext(ctx)
}

func (b *bench) serve(stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	s := seen{method: method, left: -1}
	s.md, _ = metadata.FromIncomingContext(stream.Context())
	if end, ok := stream.Context().Deadline(); ok {
		s.left = time.Until(end)
	}
	b.mu.Lock()
	b.seen = append(b.seen, s)
	n, answer := len(b.seen), b.answer
	b.mu.Unlock()
	return answer(n, stream)
}

func (b *bench) requests() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]seen(nil), b.seen...)
}

func (b *bench) close() {
	if err := b.conn.Close(); err != nil && !errors.Is(err, grpc.ErrClientConnClosing) {
		b.t.Errorf("close the connection: %v", err)
	}
	b.server.Stop()
	if err := b.client.Close(); err != nil {
		b.t.Errorf("close the client: %v", err)
	}
}

// inFakeTime runs a test in a bubble in which the clock moves only when everybody
// waits, and checks that nothing is left running.
func inFakeTime(t *testing.T, s setup, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, s)
		defer func() {
			b.close()
			synctest.Wait()
			if n := b.timers.Live(); n != 0 {
				t.Errorf("%d timers were left running", n)
			}
		}()
		test(b)
	})
}

// invoke makes a unary call.
func (b *bench) invoke(ctx context.Context, opts ...grpc.CallOption) (string, error) {
	var reply wrapperspb.StringValue
	err := b.conn.Invoke(ctx, get, wrapperspb.String("ping"), &reply, opts...)
	return reply.GetValue(), err
}

// Answers.

// replies answers a unary call with "pong".
func replies(_ int, s grpc.ServerStream) error {
	var in wrapperspb.StringValue
	if err := s.RecvMsg(&in); err != nil {
		return err
	}
	return s.SendMsg(wrapperspb.String("pong"))
}

// hangs never answers.
func hangs(_ int, s grpc.ServerStream) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// after answers when a time has passed, whatever becomes of the client.
func after(d time.Duration, then answer) answer {
	return func(n int, s grpc.ServerStream) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return then(n, s)
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

// fails answers with a code.
func fails(code codes.Code) answer {
	return func(int, grpc.ServerStream) error { return status.Error(code, "as told") }
}

// failsTimes fails n times and replies from then on.
func failsTimes(times int, first answer) answer {
	return func(n int, s grpc.ServerStream) error {
		if n <= times {
			return first(n, s)
		}
		return replies(n, s)
	}
}

// pushesBack fails with UNAVAILABLE and a pushback trailer.
func pushesBack(values ...string) answer {
	return func(_ int, s grpc.ServerStream) error {
		s.SetTrailer(metadata.MD{"grpc-retry-pushback-ms": values})
		return status.Error(codes.Unavailable, "later")
	}
}

// failure fails the test unless err is an error of the engine and of gRPC.
func failure(t testing.TB, err error) *clientlib.Error {
	t.Helper()
	var e *clientlib.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is not a *clientlib.Error", err, err)
	}
	if _, ok := status.FromError(err); !ok {
		t.Fatalf("error %v (%T) is not a status error", err, err)
	}
	return e
}

// last returns the event of the newest call.
func last(t testing.TB, events *policytest.Events) engine.CallEvent {
	t.Helper()
	calls := events.Calls()
	if len(calls) == 0 {
		t.Fatal("no call was told of")
	}
	return calls[len(calls)-1]
}

var ping = wrapperspb.String("ping")

func reply() *wrapperspb.StringValue { return &wrapperspb.StringValue{} }

// took fails the test unless exactly that time has passed.
func (b *bench) took(want time.Duration) {
	b.t.Helper()
	if got := time.Since(b.start); got != want {
		b.t.Errorf("it took %s, not %s", got, want)
	}
}

// saw fails the test unless the server saw that many requests.
func (b *bench) saw(want int) {
	b.t.Helper()
	if got := len(b.requests()); got != want {
		b.t.Errorf("the server saw %d requests, not %d", got, want)
	}
}

// later lets time pass.
func (b *bench) later(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

// refuseDials makes the server unreachable.
func (b *bench) refuseDials() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing = true
}

func roundTrip(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, get, ping, reply())
}
