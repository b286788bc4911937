// Package grpcserver turns the deadline of a gRPC call that is being served into
// the ambient budget of the calls that serving it makes.
//
// gRPC ends the context of a handler at its grpc-timeout by itself, whoever sent
// it, and nothing here changes that. What trust decides (see
// [deadline.TrustPrefixes]) is whether it is a budget too: then the policy's
// reserve is kept back from it for the handler's own reply, an error says that
// the limit was the budget's, and [deadline.RefuseSpent] applies. Headers in the
// metadata, such as x-deadline-ms, count for trusted peers only.
package grpcserver
