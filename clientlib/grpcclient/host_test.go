package grpcclient_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

func TestAUnixSocketIsTheHostThatItIsSaidToBe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "orders.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return hangs(1, s) }))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	c := client(t, `"timeouts":{"total":"50ms"}`)
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	for _, named := range []bool{true, false} {
		var opts []grpcclient.Option
		if named {
			opts = append(opts, grpcclient.WithHost("orders:8080"))
		}
		conn, err := grpc.NewClient("unix://"+socket, append(grpcclient.DialOptions(c, opts...), plain)...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err = roundTrip(ctx, conn)
		cancel()
		if named && failure(t, err).Kind != kinds.TotalTimeout {
			t.Errorf("named: %v", err)
		}
		if !named && (err == nil || strings.Contains(err.Error(), "orders")) {
			t.Errorf("not named: %v", err)
		}
		_ = conn.Close()
	}
	if w := c.Status().Warnings; len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
}

func TestTargetsWithoutAHostAreWarnedOf(t *testing.T) {
	names := manual.NewBuilderWithScheme("registry")
	names.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "bufnet"}}})
	s := setup{doc: rules(t, `"timeouts":{"total":"1s"}`), answer: replies, target: "registry:///services/orders", dial: []grpc.DialOption{grpc.WithResolvers(names)}}
	inFakeTime(t, s, func(b *bench) {
		for range 3 {
			if _, err := b.invoke(b.ctx); err != nil {
				t.Error(err)
			}
		}
		if w := b.client.Status().Warnings; len(w) != 1 || !strings.Contains(w[0], "services/orders") || !strings.Contains(w[0], "WithHost") {
			t.Errorf("warnings %q", w)
		}
		if len(b.events.Calls()) != 0 {
			t.Errorf("calls %+v", b.events.Calls())
		}
	})
}

func TestAHostThatIsNoneIsWarnedOf(t *testing.T) {
	for _, host := range []string{"", "orders:http", "http://orders", "a,b"} {
		c := client(t, `"timeouts":{"total":"1s"}`)
		grpcclient.DialOptions(c, grpcclient.WithHost(host))
		if w := c.Status().Warnings; len(w) != 1 {
			t.Errorf("%q: warnings %q", host, w)
		}
	}
}

// T11 grpc/grpc-go#7446: a route of a method that does not exist is seen to match
// nothing.
func TestARouteOfAMethodThatDoesNotExistIsShown(t *testing.T) {
	doc := rules(t, `"routes":[{"name":"missing","match":{"grpc":{"service":"shop.Orders","method":"Gett"}}},{"name":"get","match":{"grpc":{"service":"shop.Orders","method":"Get"}}}]`)
	inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
		if u := b.client.Status().UnmatchedRoutes; len(u) != 0 {
			t.Errorf("before any call: %+v", u)
		}
		if _, err := b.invoke(b.ctx); err != nil {
			t.Error(err)
		}
		u := b.client.Status().UnmatchedRoutes
		if len(u) != 1 || u[0].Upstream != "orders" || u[0].Route != "missing" || u[0].Match.GRPC.Method != "Gett" {
			t.Errorf("unmatched: %+v", u)
		}
	})
}
