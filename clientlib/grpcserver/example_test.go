package grpcserver_test

import (
	"net/netip"

	"google.golang.org/grpc"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcserver"
)

func ExampleServerOptions() {
	server := grpc.NewServer(grpcserver.ServerOptions(
		deadline.TrustPrefixes(netip.MustParsePrefix("10.0.0.0/8")),
		deadline.RefuseSpent(),
	)...)
	defer server.Stop()
}
