package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
)

// Calls of all shapes at once, to a server that does anything, under any rules: every
// error keeps its contract, every call is told of, and nothing is left.
func TestNothingIsLeftWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		c := chaos{policytest.NewChaos(seed)}
		inFakeTime(t, setup{doc: rules(t, c.Rules), answer: c.serve}, func(b *bench) {
			c.Calls(func(all *sync.WaitGroup) { c.call(b, all) })
			synctest.Wait()
			policytest.Settled(t, b.events, b.timers)
			c.Recovers(b.t, func() error { return c.calm(b) })
		})
		if t.Failed() {
			t.Fatalf("with seed %d under %q", seed, c.Rules)
		}
	}
}

type chaos struct{ *policytest.Chaos }

func (c chaos) serve(n int, s grpc.ServerStream) error {
	if c.Calm.Load() {
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

// call makes a call of some shape.
func (c chaos) call(b *bench, all *sync.WaitGroup) {
	time.Sleep(c.Within(500 * time.Millisecond)) // of the bubble
	ctx, cancel := c.Caller(b.ctx, all)
	defer cancel()
	// A server may hang for ever, and a stream be left alone.
	ctx, end := context.WithTimeout(ctx, 20*time.Second)
	defer end()
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
func (c chaos) use(b *bench, s grpc.ClientStream, desc *grpc.StreamDesc) {
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
func (c chaos) check(b *bench, err error) {
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

// calm makes a call that has to succeed.
func (c chaos) calm(b *bench) error {
	_, err := b.invoke(b.ctx)
	return err
}
