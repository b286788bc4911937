package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

type noToken struct{}

func (noToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errors.New("no token")
}
func (noToken) RequireTransportSecurity() bool { return false }

// An RPC that grpc-go does not make says nothing of the server. Metadata often
// has what somebody else wrote: five callers with an odd name must not have the
// circuit opened for all.
func TestWhatIsNotMadeIsNoFailureOfTheServer(t *testing.T) {
	with := func(key, value string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return metadata.AppendToOutgoingContext(ctx, key, value) }
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		name    string
		context func(context.Context) context.Context
		options []grpc.CallOption
		code    codes.Code
	}{
		{"a value that is no ASCII", with("x-user", "é"), nil, codes.Internal},
		{"a key that is none", with("x user", "a"), nil, codes.Internal},
		{"no credentials", plain, []grpc.CallOption{grpc.PerRPCCredentials(noToken{})}, codes.Internal},
		{"no such codec", plain, []grpc.CallOption{grpc.CallContentSubtype("nothing")}, codes.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := rules(t, `"timeouts":{"total":"1s"},"circuitBreaker":{"failures":1},"retry":{"maxAttempts":3,"retryableGRPCCodes":["INTERNAL"]}`)
			inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
				if _, err := b.invoke(b.ctx); err != nil { // there is a connection
					t.Fatal(err)
				}
				_, err := b.invoke(c.context(b.ctx), c.options...)
				if e := failure(t, err); e.Kind != kinds.Unknown || e.Attempts != 1 || status.Code(err) != c.code {
					t.Errorf("%v", err)
				}
				_, err = b.conn.NewStream(c.context(b.ctx), serverStream, watch, c.options...)
				if e := failure(t, err); e.Kind != kinds.Unknown || status.Code(err) != c.code {
					t.Errorf("a stream: %v", err)
				}
				if _, err := b.invoke(b.ctx); err != nil || len(b.events.Circuits()) != 0 {
					t.Errorf("the next call: %v, circuits %v", err, b.events.Circuits())
				}
			})
		})
	}
}

// What an interceptor makes up, which neither a limit nor the caller did: it says
// nothing of the server, and is no cancellation by the caller.
func TestWhatAnInterceptorEndsIsNeitherServersNorCallers(t *testing.T) {
	type interceptor = grpc.UnaryClientInterceptor
	returns := func(err error) interceptor {
		return func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return err
		}
	}
	within := func(d time.Duration) interceptor {
		return func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			return next(ctx, m, req, reply, cc, opts...)
		}
	}
	cancelled := func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return next(ctx, m, req, reply, cc, opts...)
	}
	for _, c := range []struct {
		name string
		with interceptor
		kind kinds.Kind
	}{
		{"an error", returns(errors.New("odd")), kinds.Unknown},
		{"a cancellation", returns(context.Canceled), kinds.Unknown},
		{"a cancellation with a reason", returns(fmt.Errorf("giving up: %w", context.Canceled)), kinds.Unknown},
		{"a cancelled context", cancelled, kinds.Unknown},
		{"a deadline", returns(context.DeadlineExceeded), kinds.ReadTimeout},
		{"a deadline with a reason", returns(fmt.Errorf("giving up: %w", context.DeadlineExceeded)), kinds.ReadTimeout},
		{"a shorter context", within(time.Second), kinds.ReadTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := rules(t, `"timeouts":{"attempt":"10s"},"circuitBreaker":{"failures":1,"tripKinds":["Disconnected"]}`)
			inFakeTime(t, setup{doc: doc, answer: hangs, dial: []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.with)}}, func(b *bench) {
				_, err := b.invoke(b.ctx)
				e := failure(t, err)
				if e.Kind != c.kind || last(t, b.events).Kind != c.kind || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) != c.kind.Timeout() {
					t.Errorf("%v is a %v, told of as %v; context.Canceled %t, context.DeadlineExceeded %t", err, e.Kind, last(t, b.events).Kind,
						errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded))
				}
				if s, ok := status.FromError(err); !ok || s == nil || s.Code() == codes.OK {
					t.Errorf("status %v", s)
				}
			})
		})
	}
}
