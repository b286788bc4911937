package grpcclient

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// attempt is one RPC on the wire: the context it is made with, and what came of
// it. Its deadline is what the server is told; the limits themselves are the
// scope's.
//
// It goes along as a call option that means nothing to grpc-go, so that the same
// interceptors know it when they are there twice.
type attempt struct {
	grpc.EmptyCallOption
	engine.Scope

	flight *flight
	parent context.Context
	began  time.Time
	// told is the deadline that goes to the server; zero for none.
	told time.Time
	// toldAttempt says that it is the attempt's, not the call's; endless that the
	// call's ends at the headers, so that only the caller's is told.
	toldAttempt, endless bool

	// trailer is what the server sent once the RPC has ended: nil where nothing of
	// it was sent.
	trailer metadata.MD
	// header is what it sent before. grpc-go makes a copy with three allocations,
	// so it is asked for only where it decides whether the RPC is repeated, and
	// for streams.
	header  metadata.MD
	options [7]grpc.CallOption

	shadow engine.Comparison
}

// open begins an attempt. stream says that attempt and total end at the headers
// and leave the rest of the RPC its time, unless the policy says otherwise.
func (a *attempt) open(ctx context.Context, f *flight, stream bool) {
	a.flight, a.parent = f, ctx
	_, a.began = f.BeginAttempt()
	a.Open(ctx, &f.Call, a.began)
	p := f.Policy
	a.endless = stream && p.Scope != document.ScopeBody
	if p.Shadow || a.endless {
		a.told, _ = ctx.Deadline()
		return
	}
	a.told = f.Granted()
	if p.Attempt > 0 && !stream {
		if end := a.began.Add(p.Attempt); a.told.IsZero() || end.Before(a.told) {
			a.told, a.toldAttempt = end, true
		}
	}
}

// Deadline returns what the server is told. The library also refuses to begin an
// RPC after it.
func (a *attempt) Deadline() (time.Time, bool) { return a.told, !a.told.IsZero() }

// noReplay keeps grpc-go from repeating by itself what a server did not process:
// it can only repeat what it has kept.
var noReplay = grpc.MaxRetryRPCBufferSize(0)

// callOptions adds to the caller's options what the adapter has to know about a
// unary RPC.
func (a *attempt) callOptions(given []grpc.CallOption) []grpc.CallOption {
	opts := append(a.options[:0], given...)
	opts = append(opts, a, grpc.Trailer(&a.trailer))
	p := a.Rules()
	if p.MaxAttempts <= 1 || p.Shadow {
		return opts[:len(opts):len(opts)]
	}
	if !a.flight.vouched(codes.Unavailable) {
		opts = append(opts, grpc.Header(&a.header))
	}
	if p.RetryKinds.Has(failure.Unprocessed) {
		opts = append(opts, noReplay)
	}
	return opts[:len(opts):len(opts)]
}
