package grpcclient_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// drips sends headers and n messages, one each every.
func drips(n int, every time.Duration) answer {
	return func(_ int, s grpc.ServerStream) error {
		if err := s.SendHeader(metadata.Pairs("x-served-by", "a")); err != nil {
			return err
		}
		for range n {
			if err := pause(s, every); err != nil {
				return err
			}
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				return err
			}
		}
		return nil
	}
}

// pause waits, or until the client has left.
func pause(s grpc.ServerStream, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

// watch opens a server stream.
func (b *bench) watch(ctx context.Context) (grpc.ClientStream, error) {
	s, err := b.conn.NewStream(ctx, serverStream, watch)
	if err != nil {
		return nil, err
	}
	return s, s.SendMsg(ping)
}

// mustWatch opens a server stream or fails the test.
func (b *bench) mustWatch(ctx context.Context) grpc.ClientStream {
	b.t.Helper()
	s, err := b.watch(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// drain reads a stream to its end and returns the number of messages, and the
// error unless that was the end.
func drain(s grpc.ClientStream) (n int, err error) {
	for {
		if err := s.RecvMsg(reply()); err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		n++
	}
}

// go-grpc-middleware#636 #216 #261, grpc-go#1838: neither ceiling nor total kills
// a healthy stream.
func TestAStreamIsNotCutUnlessItsRouteSaysSo(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: drips(8, 500*time.Millisecond)}, func(b *bench) {
		n, err := drain(b.mustWatch(b.ctx))
		if n != 8 || err != nil {
			t.Errorf("%d messages, then %v", n, err)
		}
		b.took(4 * time.Second)
		if r := b.requests()[0]; r.left != -1 {
			t.Errorf("the server was told to end within %s", r.left)
		}
		if e := last(t, b.events); !e.OK || e.Attempts != 1 || e.Method != watch {
			t.Errorf("event %+v", e)
		}
		if body := b.events.Bodies(); len(body) != 1 || !body[0].OK || body[0].Duration != 4*time.Second {
			t.Errorf("bodies %+v", body)
		}
	})
}

func TestScopeBodyCutsAStream(t *testing.T) {
	doc := rules(t, `"routes":[{"name":"watch","match":{"grpc":{"method":"Watch"}},"timeouts":{"total":"1200ms","attempt":"400ms","scope":"Body"},"deadline":{"header":"X-Deadline-Ms"}}]`)
	inFakeTime(t, setup{doc: doc, answer: func(n int, s grpc.ServerStream) error {
		_ = drips(8, 500*time.Millisecond)(n, s)
		time.Sleep(time.Minute) // a server that does not care
		return nil
	}}, func(b *bench) {
		s := b.mustWatch(b.ctx)
		n, err := drain(s)
		e := failure(t, err)
		if n != 2 || e.Kind != kinds.TotalTimeout || e.Field != "timeouts.total" || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%d messages, then %v", n, err)
		}
		b.took(1200 * time.Millisecond)
		if again := s.RecvMsg(reply()); again != err {
			t.Errorf("afterwards %v", again)
		}
		if r := b.requests()[0]; r.left != 1200*time.Millisecond || !slices.Equal(r.md["x-deadline-ms"], []string{"1200"}) {
			t.Errorf("the server was told %s, %v", r.left, r.md)
		}
		if body := b.events.Bodies(); len(body) != 1 || body[0].OK || body[0].Kind != kinds.TotalTimeout {
			t.Errorf("bodies %+v", body)
		}
	})
}

// A server that was told when to stop may stop in good order, with messages
// missing: that is no end of the stream, with a reserve as without.
func TestAServerThatStopsInTimeHasNotSentAll(t *testing.T) {
	stops := func(n int, s grpc.ServerStream) error {
		_ = drips(100, 100*time.Millisecond)(n, s)
		return nil
	}
	for _, c := range []struct {
		rules string
		took  time.Duration
		field string
	}{
		{`"timeouts":{"total":"1s","scope":"Body"}`, time.Second, "timeouts.total"},
		{`"timeouts":{"total":"1s","scope":"Body"},"deadline":{"reserve":"150ms"}`, 850 * time.Millisecond, "deadline.reserve"},
	} {
		inFakeTime(t, setup{doc: rules(t, c.rules), answer: stops}, func(b *bench) {
			_, err := drain(b.mustWatch(b.ctx))
			if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Field != c.field {
				t.Errorf("%s: %v", c.rules, err)
			}
			b.took(c.took)
			if body := b.events.Bodies(); len(body) != 1 || body[0].OK {
				t.Errorf("%s: bodies %+v", c.rules, body)
			}
		})
	}
	// Before that it is.
	inFakeTime(t, setup{doc: rules(t, `"timeouts":{"total":"1s","scope":"Body"},"deadline":{"reserve":"150ms"}`), answer: drips(8, 100*time.Millisecond)}, func(b *bench) {
		if n, err := drain(b.mustWatch(b.ctx)); n != 8 || err != nil {
			t.Errorf("%d messages, then %v", n, err)
		}
	})
}

func TestAStreamHasToAnswerWithinItsAttempt(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		s := b.mustWatch(b.ctx)
		err := s.RecvMsg(reply())
		e := failure(t, err)
		if e.Kind != kinds.AttemptTimeout || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
		b.took(400 * time.Millisecond)
		b.saw(1)
		// Its messages are not kept.
		if event := last(t, b.events); event.Kind != kinds.AttemptTimeout || event.Skip != kinds.SkipNonReplayable {
			t.Errorf("event %+v", event)
		}
		if len(b.events.Circuits()) != 1 {
			t.Errorf("circuits %v", b.events.Circuits())
		}
		if err := s.SendMsg(ping); err == nil {
			t.Error("a message was sent into a stream that is over")
		}
	})
}

// An idle stream has answered once its headers came: it need not have a message.
func TestHeadersAreAnAnswer(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"}`)
	inFakeTime(t, setup{doc: doc, answer: drips(1, time.Hour)}, func(b *bench) {
		s := b.mustWatch(b.ctx)
		if n, err := drain(s); n != 1 || err != nil {
			t.Errorf("%d messages, then %v", n, err)
		}
		b.took(time.Hour)
		if md, err := s.Header(); err != nil || !slices.Equal(md["x-served-by"], []string{"a"}) {
			t.Errorf("headers %v, %v", md, err)
		}
	})
	inFakeTime(t, setup{doc: doc, answer: drips(1, time.Hour)}, func(b *bench) {
		s := b.mustWatch(b.ctx)
		if md, err := s.Header(); err != nil || md == nil {
			t.Errorf("headers %v, %v", md, err)
		}
		if n, err := drain(s); n != 1 || err != nil {
			t.Errorf("%d messages, then %v", n, err)
		}
	})
}

// Headers are there when they come, and not when somebody looks: a caller that
// has much to send reads late.
func TestACallerMayReadLate(t *testing.T) {
	collects := func(_ int, s grpc.ServerStream) error {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		for s.RecvMsg(reply()) == nil {
		}
		return s.SendMsg(wrapperspb.String("all"))
	}
	upload := func(b *bench) error {
		s, err := b.conn.NewStream(b.ctx, bothStreams, chat)
		if err != nil {
			return err
		}
		for i := range 5 {
			if err := s.SendMsg(ping); err != nil {
				t.Errorf("message %d: %v", i+1, err)
			}
			b.later(time.Second)
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		_, err = drain(s)
		return err
	}
	t.Run("in time", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms","bodyIdle":"2s"}`)
		inFakeTime(t, setup{doc: doc, answer: collects}, func(b *bench) {
			if err := upload(b); err != nil {
				t.Error(err)
			}
			if e := last(t, b.events); !e.OK || e.Duration != 0 {
				t.Errorf("event %+v", e)
			}
			if body := b.events.Bodies(); len(body) != 1 || body[0].Duration != 5*time.Second {
				t.Errorf("bodies %+v", body)
			}
		})
	})
	t.Run("in mode Shadow", func(t *testing.T) {
		doc := rules(t, `"mode":"Shadow","timeouts":{"total":"1s","attempt":"400ms"}`)
		inFakeTime(t, setup{doc: doc, answer: collects}, func(b *bench) {
			if err := upload(b); err != nil || len(b.events.WouldCut()) != 0 {
				t.Errorf("%v, would have cut %v", err, b.events.WouldCut())
			}
		})
	})
	t.Run("but not of a server that does not answer", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"attempt":"400ms"}`)
		inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
			s, err := b.conn.NewStream(b.ctx, bothStreams, chat)
			if err != nil {
				t.Fatal(err)
			}
			b.later(time.Second)
			if err := s.SendMsg(ping); err != io.EOF {
				t.Errorf("SendMsg says %v", err)
			}
			if e := failure(t, s.RecvMsg(reply())); e.Kind != kinds.AttemptTimeout {
				t.Error(e)
			}
		})
	})
}

func TestTheGapBetweenMessages(t *testing.T) {
	doc := rules(t, `"timeouts":{"attempt":"400ms","bodyIdle":"2s"}`)
	t.Run("is limited", func(t *testing.T) {
		inFakeTime(t, setup{doc: doc, answer: func(n int, s grpc.ServerStream) error {
			_ = drips(3, time.Second)(n, s)
			return pause(s, time.Minute)
		}}, func(b *bench) {
			n, err := drain(b.mustWatch(b.ctx))
			e := failure(t, err)
			if n != 3 || e.Kind != kinds.ReadTimeout || e.Field != "timeouts.bodyIdle" || e.Limit != 2*time.Second {
				t.Errorf("%d messages, then %v", n, err)
			}
			b.took(5 * time.Second)
		})
	})
	t.Run("is the server's, not the caller's", func(t *testing.T) {
		inFakeTime(t, setup{doc: doc, answer: drips(3, time.Second)}, func(b *bench) {
			s := b.mustWatch(b.ctx)
			for i := range 3 {
				if err := s.RecvMsg(reply()); err != nil {
					t.Fatalf("message %d: %v", i+1, err)
				}
				b.later(time.Minute)
			}
			if err := s.RecvMsg(reply()); err != io.EOF {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("in mode Shadow", func(t *testing.T) {
		doc := rules(t, `"mode":"Shadow","timeouts":{"total":"100ms","attempt":"50ms","bodyIdle":"500ms","scope":"Body"}`)
		inFakeTime(t, setup{doc: doc, answer: drips(3, time.Second)}, func(b *bench) {
			if n, err := drain(b.mustWatch(b.ctx)); n != 3 || err != nil {
				t.Errorf("%d messages, then %v", n, err)
			}
			if want := []string{"body_idle", "total"}; !slices.Equal(b.events.WouldCut(), want) {
				t.Errorf("would have cut %v", b.events.WouldCut())
			}
		})
	})
}

// What a server says after its headers is for the caller, and no signal any more.
func TestAStreamThatFailsAfterItsHeaders(t *testing.T) {
	doc := rules(t, `"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: func(n int, s grpc.ServerStream) error {
		_ = drips(1, 0)(n, s)
		return status.Error(codes.DataLoss, "gone")
	}}, func(b *bench) {
		n, err := drain(b.mustWatch(b.ctx))
		if n != 1 || status.Code(err) != codes.DataLoss || status.Convert(err).Message() != "gone" {
			t.Errorf("%d messages, then %v", n, err)
		}
		if len(b.events.Circuits()) != 0 || !last(t, b.events).OK {
			t.Errorf("circuits %v, event %+v", b.events.Circuits(), last(t, b.events))
		}
		if body := b.events.Bodies(); len(body) != 1 || body[0].Kind != kinds.Status || body[0].Status != int(codes.DataLoss) {
			t.Errorf("bodies %+v", body)
		}
	})
}

func TestAStreamThatIsRefused(t *testing.T) {
	doc := rules(t, `"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: fails(codes.Unavailable)}, func(b *bench) {
		n, err := drain(b.mustWatch(b.ctx))
		if n != 0 || status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "as told" {
			t.Errorf("%d messages, then %v", n, err)
		}
		e := last(t, b.events)
		if e.OK || e.Kind != kinds.Status || e.Status != int(codes.Unavailable) || e.Skip != kinds.SkipNonReplayable {
			t.Errorf("event %+v", e)
		}
		_, err = b.watch(b.ctx)
		if failure(t, err).Kind != kinds.CircuitOpen {
			t.Errorf("%v", err)
		}
	})
}

func TestACallerEndsAStream(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"2s","attempt":"400ms"},"deadline":{"header":"X-Deadline-Ms"},"circuitBreaker":{"failures":1}`)
	inFakeTime(t, setup{doc: doc, answer: drips(1000, time.Second)}, func(b *bench) {
		ctx, cancel := context.WithCancelCause(b.ctx)
		time.AfterFunc(2500*time.Millisecond, func() { cancel(errPatience) })
		n, err := drain(b.mustWatch(ctx))
		e := failure(t, err)
		if n != 2 || e.Kind != kinds.Cancelled || status.Code(err) != codes.Canceled || !errors.Is(err, errPatience) {
			t.Errorf("%d messages, then %v", n, err)
		}
		if body := b.events.Bodies(); len(body) != 1 || !body[0].OK {
			t.Errorf("bodies %+v", body)
		}
	})
	inFakeTime(t, setup{doc: doc, answer: drips(1000, time.Second)}, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.ctx, 2500*time.Millisecond)
		defer cancel()
		n, err := drain(b.mustWatch(ctx))
		e := failure(t, err)
		if n != 2 || e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%d messages, then %v", n, err)
		}
		if r := b.requests()[0]; r.left != 2500*time.Millisecond || !slices.Equal(r.md["x-deadline-ms"], []string{"2500"}) {
			t.Errorf("the server was told %s, %v", r.left, r.md)
		}
	})
}

// grpc-go#4379 #1717, otel-contrib#839 #818: a stream whose caller reads no more is let go of all the
// same, by the end of its context or by that of the total.
func TestAForgottenStreamIsLetGo(t *testing.T) {
	t.Run("by the caller's context", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"total":"10s","attempt":"400ms","bodyIdle":"2s"}`)
		inFakeTime(t, setup{doc: doc, answer: drips(1000, time.Second)}, func(b *bench) {
			ctx, cancel := context.WithCancel(b.ctx)
			if err := b.mustWatch(ctx).RecvMsg(reply()); err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
			if n := b.timers.Live(); n != 0 {
				t.Errorf("%d timers are running", n)
			}
			if len(b.events.Bodies()) != 1 {
				t.Errorf("bodies %+v", b.events.Bodies())
			}
		})
	})
	t.Run("by the attempt, unread", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"total":"10s","attempt":"400ms"}`)
		inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
			_ = b.mustWatch(b.ctx)
			b.later(400 * time.Millisecond)
			if e := last(t, b.events); e.Kind != kinds.AttemptTimeout {
				t.Errorf("event %+v", e)
			}
			if n := b.timers.Live(); n != 0 {
				t.Errorf("%d timers are running", n)
			}
		})
	})
	t.Run("by the total", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"total":"10s","scope":"Body"}`)
		inFakeTime(t, setup{doc: doc, answer: drips(1000, time.Second)}, func(b *bench) {
			if err := b.mustWatch(b.ctx).RecvMsg(reply()); err != nil {
				t.Fatal(err)
			}
			b.later(9 * time.Second)
			if body := b.events.Bodies(); len(body) != 1 || body[0].Kind != kinds.TotalTimeout {
				t.Errorf("bodies %+v", body)
			}
		})
	})
	t.Run("by the connection", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"bodyIdle":"2s"}`)
		inFakeTime(t, setup{doc: doc, answer: drips(1000, time.Second)}, func(b *bench) {
			s := b.mustWatch(b.ctx)
			if err := s.RecvMsg(reply()); err != nil {
				t.Fatal(err)
			}
			if err := b.conn.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if failure(t, s.RecvMsg(reply())).Kind != kinds.Cancelled {
				t.Errorf("%v", s.RecvMsg(reply()))
			}
		})
	})
}

// Who closes a connection leaves: that says nothing of the server, whenever it is.
func TestAConnectionThatIsClosedIsNoFailure(t *testing.T) {
	for name, does := range map[string]answer{"before the headers": hangs, "between messages": drips(100, time.Minute)} {
		for shape, desc := range map[string]*grpc.StreamDesc{"server": serverStream, "client": clientStream, "both": bothStreams} {
			doc := rules(t, `"timeouts":{"total":"20m"},"circuitBreaker":{"failures":1},`+listed)
			inFakeTime(t, setup{doc: doc, answer: does}, func(b *bench) {
				s, err := b.conn.NewStream(b.ctx, desc, chat)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.SendMsg(ping); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(90*time.Second, func() { _ = b.conn.Close() })
				_, err = drain(s)
				if e := failure(t, err); e.Kind != kinds.Cancelled || status.Code(err) != codes.Canceled {
					t.Errorf("%s, %s: %v", shape, name, err)
				}
				if len(b.events.Circuits()) != 0 {
					t.Errorf("%s, %s: circuits %v", shape, name, b.events.Circuits())
				}
			})
		}
	}
	for name, does := range map[string]answer{"before the headers": hangs, "after": func(_ int, s grpc.ServerStream) error {
		_ = s.SendHeader(nil)
		<-s.Context().Done()
		return nil
	}} {
		doc := rules(t, `"timeouts":{"total":"20m"},"circuitBreaker":{"failures":1},`+listed)
		inFakeTime(t, setup{doc: doc, answer: does}, func(b *bench) {
			time.AfterFunc(90*time.Second, func() { _ = b.conn.Close() })
			_, err := b.invoke(b.ctx)
			if e := failure(t, err); e.Kind != kinds.Cancelled || e.Attempts > 2 || len(b.events.Circuits()) != 0 {
				t.Errorf("unary, %s: %v, circuits %v", name, err, b.events.Circuits())
			}
		})
	}
}

// A client stream answers once, at its end: until then it is under all limits.
func TestAClientStreamEndsWithItsReply(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s","attempt":"1s"}`)
	open := func(b *bench) grpc.ClientStream {
		s, err := b.conn.NewStream(b.ctx, clientStream, upload)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("in time", func(t *testing.T) {
		inFakeTime(t, setup{doc: doc, answer: func(_ int, s grpc.ServerStream) error {
			for s.RecvMsg(reply()) == nil {
			}
			return s.SendMsg(wrapperspb.String("3"))
		}}, func(b *bench) {
			s := open(b)
			for range 3 {
				if err := s.SendMsg(ping); err != nil {
					t.Fatal(err)
				}
				b.later(300 * time.Millisecond)
			}
			_ = s.CloseSend()
			got := reply()
			if err := s.RecvMsg(got); err != nil || got.GetValue() != "3" {
				t.Errorf("%q, %v", got.GetValue(), err)
			}
			if r := b.requests()[0]; r.left != time.Second {
				t.Errorf("the server was told %s", r.left)
			}
			if e := last(t, b.events); !e.OK || len(b.events.Bodies()) != 0 {
				t.Errorf("event %+v, bodies %+v", e, b.events.Bodies())
			}
		})
	})
	t.Run("too late", func(t *testing.T) {
		inFakeTime(t, setup{doc: doc, answer: func(_ int, s grpc.ServerStream) error { return s.RecvMsg(reply()) }}, func(b *bench) {
			s := open(b)
			b.later(2 * time.Second)
			if err := s.SendMsg(ping); err != io.EOF {
				t.Errorf("SendMsg says %v", err)
			}
			if e := failure(t, s.RecvMsg(reply())); e.Kind != kinds.AttemptTimeout {
				t.Errorf("%v", e)
			}
		})
	})
}

// A stream for which there is no connection has sent nothing and is tried again.
func TestAStreamWithoutAConnectionIsTriedAgain(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`), answer: replies}, func(b *bench) {
		b.refuseDials()
		_, err := b.watch(b.ctx)
		if e := failure(t, err); e.Kind != kinds.ConnectError || e.Attempts != 3 || status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
		b.took(30 * time.Millisecond)
	})
}

func TestABudgetLimitsTheWaitForAStream(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, ""), answer: hangs}, func(b *bench) {
		err := b.mustWatch(deadline.With(b.ctx, time.Second)).RecvMsg(reply())
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget {
			t.Errorf("%v", err)
		}
		b.took(time.Second)
	})
}

// Both directions at once, ended from a third side: for the race detector.
func TestAStreamIsUsedFromSeveralSides(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s","attempt":"1s","bodyIdle":"1s"}`)
	echo := func(_ int, s grpc.ServerStream) error {
		for {
			in := reply()
			if err := s.RecvMsg(in); err != nil {
				return nil
			}
			if err := s.SendMsg(in); err != nil {
				return err
			}
		}
	}
	inFakeTime(t, setup{doc: doc, answer: echo}, func(b *bench) {
		var all sync.WaitGroup
		for range 8 {
			ctx, cancel := context.WithCancel(b.ctx)
			s, err := b.conn.NewStream(ctx, bothStreams, chat)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for s.SendMsg(ping) == nil {
					time.Sleep(time.Millisecond) // of the bubble
				}
			})
			all.Go(func() { _, _ = s.Header() })
			all.Go(func() {
				n, err := drain(s)
				if kind := failure(t, err).Kind; n < 50 || kind != kinds.Cancelled {
					t.Errorf("%d messages, then %v", n, err)
				}
			})
			all.Go(func() { time.Sleep(100 * time.Millisecond); cancel() })
		}
		all.Wait()
	})
}
