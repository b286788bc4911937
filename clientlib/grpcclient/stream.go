package grpcclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// stream opens a stream.
func (i *interceptors) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	f, err := i.begin(ctx, cc, method, desc.ServerStreams, opts)
	if f == nil && err == nil {
		return open(ctx, desc, cc, method, opts...)
	}
	rest, finish := splitFinish(opts)
	var s *stream
	if err == nil {
		s, err = f.openStream(ctx, desc.ServerStreams, rest, func(ctx context.Context, opts []grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, opts...)
		})
	}
	if err != nil {
		callEach(finish, err)
		return nil, err
	}
	s.established(finish)
	return s, nil
}

// openStream tries again as long as no stream could be made for want of a
// connection; once there is one it is the only one, since its messages are not
// kept.
func (f *flight) openStream(ctx context.Context, serverStreams bool, opts []grpc.CallOption, open func(context.Context, []grpc.CallOption) (grpc.ClientStream, error)) (*stream, error) {
	for {
		if err := f.lapse(); err != nil {
			return nil, err
		}
		s := &stream{serverStreams: serverStreams}
		s.try.open(ctx, f, serverStreams)
		if f.Attempts() > 1 {
			forget(opts)
		}
		err := s.try.guard(func(ctx context.Context) (err error) {
			s.ClientStream, err = open(ctx, s.callOptions(opts))
			return err
		})
		if err == nil {
			return s, nil
		}
		res := s.try.classify(err)
		s.try.compareHeaders()
		res.outcome.Repeatable = f.repeatable(ctx, &res)
		res.outcome.Replayable = res.unsent
		decision := f.Decide(res.outcome)
		s.try.Finish()
		if !decision.Retry {
			return nil, f.conclude(res, decision)
		}
		if err := f.wait(ctx, f.Decided().Add(decision.Wait)); err != nil {
			return nil, err
		}
	}
}

// stream is a stream under the limits of its call.
//
// Attempt and total end at the headers, those of a client stream at its reply;
// from then on bodyIdle limits the wait for each message, and the total goes on
// where scope is Body. What the limits cost is given back at the end of the
// stream, which grpc-go tells of in every case in which it does not leak the
// stream itself.
type stream struct {
	grpc.ClientStream

	try           attempt
	serverStreams bool
	// entered says that the headers came and the limits of messages hold.
	entered atomic.Bool
	// answered is closed when the headers are there or will never be. It is nil
	// where nothing is limited until then, so that RecvMsg may wait for them itself.
	answered chan struct{}

	// mu guards the end of the headers and that of the stream, which may come from
	// RecvMsg, SendMsg and, where a context ended, a goroutine of grpc-go's.
	mu      sync.Mutex
	isOpen  bool
	early   *ending       // the end that came before the stream was handed over
	finish  []func(error) // the caller's, for the end
	settled bool
	ended   bool
	err     error // for the caller; nil after a regular end
}

// ending is what grpc-go said at the end of a stream.
type ending struct{ err error }

// callOptions adds to the caller's options what the adapter has to know about a
// stream. Unlike those of a unary RPC, grpc-go may repeat it once by itself where
// the server did not process it.
func (s *stream) callOptions(given []grpc.CallOption) []grpc.CallOption {
	opts := append(s.try.options[:0], given...)
	opts = append(opts, &s.try, grpc.Header(&s.try.header), grpc.Trailer(&s.try.trailer), grpc.OnFinish(s.finished))
	return opts[:len(opts):len(opts)]
}

// established hands the stream over. It may have ended meanwhile.
func (s *stream) established(finish []func(error)) {
	s.mu.Lock()
	s.isOpen, s.finish = true, finish
	early := s.early
	if early == nil && s.serverStreams && s.try.flight.waits() {
		s.answered = make(chan struct{})
		go s.awaitHeaders()
	}
	s.mu.Unlock()
	if early != nil {
		s.finished(early.err)
	}
}

// waits reports whether the headers of a stream have to come in time.
func (f *flight) waits() bool {
	return f.Policy.Attempt > 0 || f.Policy.Total > 0 || !f.End().IsZero()
}

// awaitHeaders sees the headers come, also while the caller only sends: they end
// attempt and total when they are there, and not when somebody looks.
func (s *stream) awaitHeaders() {
	defer close(s.answered)
	s.lookForHeaders()
}

// lookForHeaders waits for them. What goes wrong comes from RecvMsg.
func (s *stream) lookForHeaders() {
	if md, err := s.ClientStream.Header(); err == nil && md != nil {
		s.enter()
	}
}

// finished is called by grpc-go, once, when the stream is over, and when it could
// not be made.
func (s *stream) finished(err error) {
	s.mu.Lock()
	if !s.isOpen {
		s.early = &ending{err: err}
		s.mu.Unlock()
		return
	}
	s.end(err)
	err = s.err
	s.mu.Unlock()
	callEach(s.finish, err)
}

// settleHeaders returns when the headers are there or will never be, and their
// limits with them. To grpc-go, Header and RecvMsg are calls of one goroutine.
func (s *stream) settleHeaders() {
	switch {
	case !s.serverStreams || s.entered.Load():
	case s.answered != nil:
		<-s.answered
	default:
		s.lookForHeaders()
	}
}

// Header returns the headers of the stream.
func (s *stream) Header() (metadata.MD, error) {
	s.settleHeaders()
	md, err := s.ClientStream.Header()
	if err != nil {
		err = s.over(err)
	}
	return md, err
}

// RecvMsg waits for the headers, then for a message: this is where an idle stream
// is told from one that does not answer.
func (s *stream) RecvMsg(m any) error {
	s.settleHeaders()
	returned := false
	defer s.unless(&returned)
	began := s.beginRecv()
	err := s.ClientStream.RecvMsg(m)
	returned = true
	s.endRecv(began)
	if err != nil {
		return s.over(err)
	}
	return nil
}

// SendMsg sends a message. Its io.EOF says that the stream is over; why, says
// RecvMsg.
func (s *stream) SendMsg(m any) error {
	returned := false
	defer s.unless(&returned)
	err := s.ClientStream.SendMsg(m)
	returned = true
	if err == nil || err == io.EOF {
		return err
	}
	return s.over(err)
}

// unless ends the stream when the library, or a codec, panicked in place of
// returning: who recovers from that will not come back to the stream.
func (s *stream) unless(returned *bool) {
	if !*returned {
		_ = s.over(errPanic)
	}
}

func (s *stream) beginRecv() time.Time {
	if !s.entered.Load() {
		return time.Time{}
	}
	return s.try.shadow.BeginRead(&s.try.Scope)
}

func (s *stream) endRecv(began time.Time) {
	if !s.entered.Load() {
		return
	}
	s.try.shadow.EndRead(&s.try.Scope, began)
}

// enter ends attempt and total of a server stream: its headers are there.
func (s *stream) enter() {
	if !s.serverStreams {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled || !s.try.EnterBody(true) {
		return // it has ended, or a limit has fired: RecvMsg will say so
	}
	s.try.compareHeaders()
	// How it ends is not known yet: as far as it went, it succeeded.
	out := engine.Outcome{OK: true}
	s.try.flight.Settle(out, engine.Attribution{}, s.try.flight.Decide(out))
	s.settled = true
	s.entered.Store(true)
}

// over ends the stream and returns the error for the caller.
func (s *stream) over(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == io.EOF {
		s.end(nil)
	} else {
		s.end(err)
	}
	if s.err == nil {
		return err // after a regular end: the library's own words
	}
	return s.err
}

// end is the one end of a stream; it is called with the lock.
func (s *stream) end(err error) {
	if s.ended {
		return
	}
	s.ended = true
	res := s.try.classify(err)
	if err == nil && s.serverStreams {
		res = s.try.ended()
	}
	if s.settled {
		s.try.compareStream()
		s.err = s.try.flight.errorOf(&res, engine.Decision{})
		if s.byCaller() {
			res.outcome = engine.Outcome{OK: true, Status: res.outcome.Status}
		}
		now, _ := s.try.Look()
		s.try.flight.BodyDone(res.outcome, now)
	} else {
		s.settled = true
		s.try.compareHeaders()
		res.outcome.Repeatable = true // but its messages are gone
		decision := s.try.flight.Decide(res.outcome)
		s.err = s.try.flight.conclude(res, decision)
	}
	s.try.Finish()
}

// byCaller reports whether the caller ended the stream, which is how one that has
// no end is closed.
func (s *stream) byCaller() bool {
	return s.try.Fired() == engine.LimitNone && errors.Is(s.try.parent.Err(), context.Canceled)
}
