// Package grpcserver turns the deadline of a gRPC call that is being served into
// the ambient budget of the calls that serving it makes.
package grpcserver
