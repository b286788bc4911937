package grpcclient

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// repeatable reports whether an RPC that failed may be made again. Every RPC is a
// POST, and nothing in it says whether it is idempotent, so somebody has to:
//
//   - nothing of it was sent;
//   - the call site vouches for it;
//   - it has metadata of an idempotency header;
//   - the policy's methods include POST;
//   - the policy lists the code, which the caller would see, in
//     retryableGRPCCodes. The default code does not count: nobody wrote it down.
//
// What a server did not process is repeated in any case; that is the engine's. A
// server that asks not to be tried again is not, whoever says what.
func (f *flight) repeatable(ctx context.Context, res *result) bool {
	p := f.Policy
	if res.outcome.OK || p.MaxAttempts <= 1 || res.refused {
		return false
	}
	if res.unsent {
		return true
	}
	if f.vouched(codeOf(res)) {
		return true
	}
	return f.Options().Vouch != engine.VouchOnce && p.Repeatable(http.MethodPost, headersOf(ctx))
}

// vouched reports whether the call site, or else the policy, says of a code that
// an RPC which ends with it may be made again.
func (f *flight) vouched(code codes.Code) bool {
	switch f.Options().Vouch {
	case engine.VouchIdempotent:
		return true
	case engine.VouchOnce:
		return false
	default:
		return f.Policy.ListsGRPC(int(code))
	}
}

// codeOf returns the code that the caller would see.
func codeOf(res *result) codes.Code {
	switch {
	case res.outcome.Kind.Timeout():
		return codes.DeadlineExceeded
	case res.outcome.Kind == failure.Status:
		return codes.Code(res.outcome.Status)
	default:
		return statusOf(res.err).Code()
	}
}

// pushbackKey is the trailer in which a server says when to try again (gRFC A6).
const pushbackKey = "grpc-retry-pushback-ms"

// pushback reads the trailer: how long to wait, or that there shall be no other
// attempt, which a negative number and everything that is no number mean.
func pushback(values []string) (wait time.Duration, refused bool) {
	if len(values) == 0 {
		return 0, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if len(values) > 1 || err != nil || ms < 0 {
		return 0, true
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, false
	}
	return time.Duration(ms) * time.Millisecond, false
}
