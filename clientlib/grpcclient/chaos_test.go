package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// Calls of all shapes at once, to a server that does anything, under any rules: every
// error keeps its contract, every call is told of, and nothing is left.
func TestNothingIsLeftWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		c := &chaos{Dice: policytest.NewDice(seed)}
		text := policytest.MixedRules[c.N(len(policytest.MixedRules))]
		inFakeTime(t, setup{doc: rules(t, text), answer: c.serve}, func(b *bench) {
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() { c.call(b, &all) })
			}
			all.Wait()
			b.later(time.Minute)
			policytest.Settled(t, b.events, b.timers)
			c.calm.Store(true)
			c.recovers(b)
		})
		if t.Failed() {
			t.Fatalf("with seed %d under %q", seed, text)
		}
	}
}

type chaos struct {
	*policytest.Dice
	// calm says that the server behaves from now on.
	calm atomic.Bool
}

func (c *chaos) serve(n int, s grpc.ServerStream) error {
	if c.calm.Load() {
		return replies(n, s)
	}
	if c.OneIn(3) {
		_ = s.SendHeader(metadata.Pairs("x-served-by", "a"))
	}
	for range c.N(4) {
		_ = pause(s, c.Within(200*time.Millisecond))
		if !c.OneIn(3) {
			_ = s.SendMsg(wrapperspb.String("x"))
		}
	}
	switch c.N(7) {
	case 0:
		return hangs(n, s)
	case 1:
		return status.Error(codes.Code(c.N(20)), "as told")
	case 2:
		return status.Error(codes.Unavailable, "later")
	case 3:
		return pushesBack(fmt.Sprint(c.N(400)-100))(n, s)
	case 4:
		for s.RecvMsg(reply()) == nil {
		}
		return nil
	case 5:
		return after(c.Within(2*time.Second), replies)(n, s)
	default:
		return replies(n, s)
	}
}

// caller returns the context of a call, and its end, which comes after all limits.
func (c *chaos) caller(b *bench, all *sync.WaitGroup) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(b.ctx)
	stop := time.AfterFunc(20*time.Second, cancel)
	context.AfterFunc(ctx, func() { stop.Stop() })
	switch c.N(5) {
	case 0:
		limited, end := context.WithTimeout(ctx, c.Within(600*time.Millisecond))
		return limited, func() { end(); cancel() }
	case 1:
		at := time.After(c.Within(600 * time.Millisecond))
		all.Go(func() { <-at; cancel() })
	case 2:
		ctx = deadline.With(ctx, c.Within(800*time.Millisecond))
	case 3:
		ctx = clientlib.WithCall(ctx, clientlib.Cap(time.Millisecond+c.Within(700*time.Millisecond)), clientlib.Idempotent(c.OneIn(2)))
	}
	return ctx, cancel
}

// call makes a call of some shape.
func (c *chaos) call(b *bench, all *sync.WaitGroup) {
	time.Sleep(c.Within(500 * time.Millisecond)) // of the bubble
	ctx, cancel := c.caller(b, all)
	defer cancel()
	if c.OneIn(4) {
		_, err := b.invoke(ctx)
		c.check(b, err)
		return
	}
	desc := []*grpc.StreamDesc{serverStream, clientStream, bothStreams}[c.N(3)]
	s, err := b.conn.NewStream(ctx, desc, chat)
	if err != nil {
		c.check(b, err)
		return
	}
	c.use(b, s, desc)
}

// use sends, reads, or leaves a stream alone, which then ends with its caller.
func (c *chaos) use(b *bench, s grpc.ClientStream, desc *grpc.StreamDesc) {
	for range 1 + c.N(3) {
		c.check(b, s.SendMsg(ping))
		if !desc.ClientStreams {
			break
		}
		time.Sleep(c.Within(200 * time.Millisecond)) // of the bubble
	}
	if !c.OneIn(4) {
		c.check(b, s.CloseSend())
	}
	if c.OneIn(4) {
		_, err := s.Header()
		c.check(b, err)
	}
	if c.OneIn(6) {
		return
	}
	for range 10 {
		if c.OneIn(3) {
			time.Sleep(c.Within(300 * time.Millisecond)) // of the bubble
		}
		err := s.RecvMsg(reply())
		c.check(b, err)
		if err != nil || !desc.ServerStreams {
			return
		}
	}
}

// check knows three kinds of errors: the end of a stream, a server's answer, and ours.
func (c *chaos) check(b *bench, err error) {
	if err == nil || err == io.EOF {
		return
	}
	if _, ok := status.FromError(err); !ok {
		b.t.Errorf("the error %v (%T) is no status", err, err)
	}
	var own *clientlib.Error
	if !errors.As(err, &own) {
		return
	}
	for _, breach := range policytest.Breaches(err) {
		b.t.Errorf("%s", breach)
	}
}

// recovers makes sure that the server can be called again: no probe of the circuit is
// held by what has ended.
func (c *chaos) recovers(b *bench) {
	var err error
	for range 3 {
		if _, err = b.invoke(b.ctx); err == nil {
			return
		}
		b.later(time.Second)
	}
	b.t.Errorf("in the end: %v", err)
}
