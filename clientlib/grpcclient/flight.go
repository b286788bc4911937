package grpcclient

import (
	"context"
	"errors"
	"reflect"
	"time"

	"google.golang.org/grpc"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// flight is one logical call, over all its attempts.
type flight struct {
	engine.Call

	in     *interceptors
	to     *target
	method string // "/service/method"
	// first spares a call that needs only one attempt an allocation.
	first     attempt
	firstUsed bool
}

// unary makes a unary call.
func (i *interceptors) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	f, err := i.begin(ctx, cc, method, false, opts)
	if f == nil && err == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	rest, finish := splitFinish(opts)
	if err == nil {
		err = f.attempts(ctx, reply, rest, func(ctx context.Context, opts []grpc.CallOption) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		})
	}
	callEach(finish, err)
	return err
}

// attempts is the attempt loop of a unary call.
func (f *flight) attempts(ctx context.Context, reply any, opts []grpc.CallOption, invoke func(context.Context, []grpc.CallOption) error) error {
	var was reflect.Value
	if f.Policy.MaxAttempts > 1 {
		was = asItWas(reply)
	}
	for {
		if err := f.lapse(); err != nil {
			return err
		}
		a := f.openUnary(ctx)
		if f.Attempts() > 1 {
			forget(opts)
			renew(reply, was)
		}
		res := a.classify(a.guard(func(ctx context.Context) error { return invoke(ctx, a.callOptions(opts)) }))
		a.compareHeaders()
		if res.outcome.OK && !f.Traced() {
			a.Finish()
			f.Succeed(res.outcome.Status)
			return res.err
		}
		res.outcome.Repeatable = f.repeatable(ctx, &res)
		res.outcome.Replayable = true
		decision := f.Decide(res.outcome)
		a.Finish()
		if !decision.Retry {
			return f.conclude(res, decision)
		}
		if err := f.wait(ctx, f.Decided().Add(decision.Wait)); err != nil {
			return err
		}
	}
}

// guard makes the RPC of an attempt. A panic in what comes after us, which somebody
// may recover from, ends the call too.
func (a *attempt) guard(rpc func(context.Context) error) error {
	returned := false
	defer func() {
		if returned {
			return
		}
		f, out := a.flight, engine.Outcome{Kind: failure.Unknown, Status: engine.NoStatus}
		decision := f.Decide(out)
		a.Finish()
		_ = f.conclude(result{outcome: out, err: errPanic}, decision)
	}()
	err := rpc(a.outgoing())
	returned = true
	return err
}

var errPanic = errors.New("panic in an interceptor or codec")

// openUnary begins an attempt at a unary call.
func (f *flight) openUnary(ctx context.Context) *attempt {
	a := &f.first
	if f.firstUsed {
		// A library may keep the context of an attempt after it ended, so none
		// is used again.
		a = new(attempt)
	}
	f.firstUsed = true
	a.open(ctx, f, false)
	return a
}

// lapse ends the call where too little of it is left for another attempt.
func (f *flight) lapse() error {
	attribution, lapsed := f.LapsedNow()
	if !lapsed {
		return nil
	}
	out := engine.Outcome{Kind: failure.TotalTimeout, Status: engine.NoStatus}
	return f.conclude(result{outcome: out, attribution: attribution}, engine.Decision{})
}

// conclude ends a call without a body with what its last attempt brought.
func (f *flight) conclude(res result, d engine.Decision) error {
	f.NoBody()
	f.Settle(res.outcome, res.attribution, d)
	return f.errorOf(&res, d)
}

// errorOf returns the error for the caller: what a server answered is left as
// the library made it.
func (f *flight) errorOf(res *result, d engine.Decision) error {
	if res.outcome.OK || res.outcome.Kind == failure.Status {
		return res.err
	}
	return ownError(f.Failure(res.outcome, res.attribution, d, res.err))
}

// wait sleeps until the next attempt is due, unless the caller ends the call.
func (f *flight) wait(ctx context.Context, next time.Time) error {
	outcome, attribution, ended := f.Rest(ctx, next)
	if !ended {
		return nil
	}
	return f.conclude(result{outcome: outcome, attribution: attribution, err: context.Cause(ctx)}, engine.Decision{})
}
