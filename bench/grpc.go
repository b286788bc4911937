package main

import (
	"context"
	"net"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

func grpcGroup(name, title string, run func(maker) func(int) error) *group {
	return &group{
		name: name, title: title, base: caseBare, plain: casePlain, network: true,
		open: func() ([]*testCase, func(), error) {
			var l closers
			cases, err := grpcCases(&l, run)
			return cases, l.close, err
		},
	}
}

// closers are ended in the order in which they came.
type closers []func()

func (c *closers) add(f func()) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range *c {
		f()
	}
}

// grpcCases calls the health service of a server on the loopback interface, each
// case on a connection of its own.
func grpcCases(l *closers, run func(maker) func(int) error) ([]*testCase, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }() // ends with Stop
	target := listener.Addr().String()

	var cases []*testCase
	add := func(name string, full, limited bool, opts ...grpc.DialOption) error {
		conn, err := grpc.NewClient("passthrough:///"+target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			return err
		}
		l.add(func() { _ = conn.Close() })
		cases = append(cases, &testCase{name: name, full: full, run: run(unary(conn, limited))})
		return nil
	}
	retry := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxRetries(retries).WithBudget(budget.New()).Build()
	for _, c := range []struct {
		name          string
		full, limited bool
		opts          []grpc.DialOption
	}{
		{caseBare, false, false, nil},
		{casePlain, false, true, nil},
		{"failsafegrpc " + version("github.com/failsafe-go/failsafe-go"), true, false,
			[]grpc.DialOption{grpc.WithUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(failsafePolicies(retry)...))}},
	} {
		if err := add(c.name, c.full, c.limited, c.opts...); err != nil {
			return nil, err
		}
	}
	for _, own := range []struct {
		name, host string
		options    []clientlib.Option
	}{
		{caseUnlimited, "nobody.example", []clientlib.Option{metrics()}},
		{"ours, all but metrics", target, nil},
		{caseAll, target, []clientlib.Option{metrics()}},
	} {
		c, err := client(own.host, allRules, own.options...)
		if err != nil {
			return nil, err
		}
		l.add(func() { _ = c.Close() })
		if err := add(own.name, false, false, grpcclient.DialOptions(c)...); err != nil {
			return nil, err
		}
	}
	l.add(server.Stop)
	return cases, nil
}

func unary(conn *grpc.ClientConn, limited bool) maker {
	return func() caller {
		service, req := health_v1.NewHealthClient(conn), &health_v1.HealthCheckRequest{}
		return func([]byte) error {
			ctx, cancel := context.Background(), func() {}
			if limited {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, total)
				cancel = end
			}
			_, err := service.Check(ctx, req)
			cancel()
			return err
		}
	}
}
