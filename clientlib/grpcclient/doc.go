// Package grpcclient enforces the policy in force on the calls of a gRPC
// connection.
package grpcclient
