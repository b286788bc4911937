package grpcclient_test

import (
	"context"
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// inForce is a policy with everything that costs something on the way of a call
// that succeeds.
const inForce = `"timeouts":{"total":"10s","attempt":"5s"},"circuitBreaker":{},` +
	`"retry":{"maxAttempts":3,"retryableGRPCCodes":["UNAVAILABLE"],"budget":{}}`

// noCodes lists no code, so that the headers of each reply are asked for.
const noCodes = `"timeouts":{"total":"10s","attempt":"5s"},"circuitBreaker":{},"retry":{"maxAttempts":3,"budget":{}}`

// loopback is a real server that answers at once, and a connection to it.
func loopback(tb testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	return loopbackWith(tb, func(s grpc.ServerStream) error { return replies(1, s) }, opts...)
}

func loopbackWith(tb testing.TB, serve func(grpc.ServerStream) error, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return serve(s) }))
	go func() { _ = server.Serve(listener) }()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	return conn
}

func client(tb testing.TB, text string, opts ...clientlib.Option) *clientlib.Client {
	tb.Helper()
	opts = append(opts, clientlib.WithSource(source.Static(rules(tb, text))),
		clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	c, err := clientlib.New(tb.Context(), "checkout", opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAllocations holds a unary call under a policy to what the one
// context.WithTimeout costs that it replaces, and a host without a policy to
// nothing. Client and server of a loopback connection are counted together.
func TestAllocations(t *testing.T) {
	bare := loopback(t)
	ours := loopback(t, grpcclient.DialOptions(client(t, inForce), grpcclient.WithHost("orders:8080"))...)
	unlisted := loopback(t, grpcclient.DialOptions(client(t, noCodes), grpcclient.WithHost("orders:8080"))...)
	other := loopback(t, grpcclient.DialOptions(client(t, inForce), grpcclient.WithHost("elsewhere:8080"))...)
	measure := func(conn *grpc.ClientConn, timeout time.Duration) float64 {
		call := func() {
			ctx := t.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			if err := roundTrip(ctx, conn); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 {
			call()
		}
		// What the runtime and other goroutines allocate meanwhile only adds to it.
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(30, call))
		}
		return least
	}
	plain, limited := measure(bare, 0), measure(bare, 10*time.Second)
	policy, headers, without := measure(ours, 0), measure(unlisted, 0), measure(other, 0)
	t.Logf("bare %v, bare with context.WithTimeout %v, policy in force %v, without listed codes %v, no policy for the host %v", plain, limited, policy, headers, without)
	if policy > limited+2+forgotten {
		t.Errorf("a call under a policy takes %v allocations, one with context.WithTimeout %v", policy, limited)
	}
	if headers > limited+4+forgotten {
		t.Errorf("a call under a policy that lists no code takes %v allocations, one with context.WithTimeout %v", headers, limited)
	}
	if without > plain+1+forgotten {
		t.Errorf("a call to a host without a policy takes %v allocations, a bare one %v", without, plain)
	}
}
