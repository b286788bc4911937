// Package chain shows that a deadline goes from service to service: net/http to
// gRPC to net/http, through real servers, each with its own client and policy.
package chain
