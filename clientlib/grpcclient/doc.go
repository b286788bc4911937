// Package grpcclient enforces a client's policies on the calls of gRPC
// connections.
//
//	conn, err := grpc.NewClient(target, append(grpcclient.DialOptions(client), creds)...)
//
// A call is a unary RPC with all its attempts, or a stream. The upstream is
// found by the host and port of the connection's target (see [WithHost]), the
// route by service and method.
//
// Errors are *[failure.Error] and status errors at once: status.FromError,
// status.Code and errors.As all find what they look for. Every timeout has the
// code DEADLINE_EXCEEDED, an open circuit UNAVAILABLE. What a server answered is
// returned as grpc-go would return it.
//
// The retries of a service config are switched off: the engine alone repeats, so
// that attempts never multiply. What cannot be done on gRPC is in the adapter's
// record, capability.GRPC.
package grpcclient
