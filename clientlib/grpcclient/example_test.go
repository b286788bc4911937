package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// The calls of a connection obey the policies of the client; the policy here
// comes from the program, in a pod it comes from the mount.
func ExampleDialOptions() {
	ctx := context.Background()
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["127.0.0.1"],
		"timeouts":{"total":"2s"},
		"routes":[{"name":"watch","match":{"grpc":{"method":"Watch"}},"timeouts":{"total":"50ms","scope":"Body"}}]}]}`))
	if err != nil {
		log.Fatal(err)
	}
	client, err := clientlib.New(ctx, "checkout", clientlib.WithSource(source.Static(doc)), clientlib.WithReporter(nil),
		clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	address, stop := serveHealth()
	defer stop()

	conn, err := grpc.NewClient(address, append(grpcclient.DialOptions(client),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	orders := healthpb.NewHealthClient(conn)

	reply, err := orders.Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)

	stream, err := orders.Watch(ctx, &healthpb.HealthCheckRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	var failed *clientlib.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Kind, failed.Field, status.Code(err) == codes.DeadlineExceeded)
	}
	// Output:
	// SERVING <nil>
	// TotalTimeout timeouts.total true
}

// serveHealth is a server that knows how it is.
func serveHealth() (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop
}
