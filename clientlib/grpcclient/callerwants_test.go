package grpcclient_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// told is what a caller asked to be told by options.
type told struct {
	header, trailer metadata.MD
	peer            grpcpeer.Peer

	mu   sync.Mutex // grpc-go may tell of the end in a goroutine of its own
	ends []error
}

func (o *told) options() []grpc.CallOption {
	onFinish := grpc.OnFinish(func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ends = append(o.ends, err)
	})
	return []grpc.CallOption{grpc.Header(&o.header), onFinish, grpc.Trailer(&o.trailer), onFinish, grpc.Peer(&o.peer)}
}

// ended fails the test unless each function was called once, with the error that
// the caller got.
func (o *told) ended(t *testing.T, err error) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.ends, []error{err, err}) {
		t.Errorf("OnFinish was told %v, the caller %v", o.ends, err)
	}
}

// To the caller, its attempts are one call: OnFinish says once how it ended.
func TestOnFinishIsToldOfTheCall(t *testing.T) {
	vanishes := func(b *bench) { b.refuseDials(); b.server.Stop() }
	for _, c := range []struct {
		name   string
		answer answer
		before func(*bench)
		code   codes.Code
	}{
		{"success after failures", failsTimes(2, fails(codes.Unavailable)), nil, codes.OK},
		{"failure", fails(codes.Unavailable), nil, codes.Unavailable},
		{"limit", hangs, nil, codes.DeadlineExceeded},
		{"no connection", replies, vanishes, codes.Unavailable},
		{"circuit open", replies, func(b *bench) { vanishes(b); _, _ = b.invoke(b.ctx) }, codes.Unavailable},
	} {
		doc := rules(t, `"timeouts":{"attempt":"100ms"},"circuitBreaker":{"failures":1},`+listed)
		for shape, call := range map[string]func(*bench, context.Context, []grpc.CallOption) error{
			"unary": func(b *bench, ctx context.Context, opts []grpc.CallOption) error {
				_, err := b.invoke(ctx, opts...)
				return err
			},
			"stream": func(b *bench, ctx context.Context, opts []grpc.CallOption) error {
				s, err := b.conn.NewStream(ctx, serverStream, watch, opts...)
				if err != nil {
					return err
				}
				if err := s.SendMsg(ping); err != nil {
					return err
				}
				_, err = drain(s)
				return err
			},
		} {
			t.Run(c.name+", "+shape, func(t *testing.T) {
				inFakeTime(t, setup{doc: doc, answer: c.answer}, func(b *bench) {
					if c.before != nil {
						c.before(b)
					}
					var o told
					err := call(b, b.ctx, o.options())
					// A stream that had a connection is not repeated.
					if want := c.code; status.Code(err) != want && (shape == "unary" || want != codes.OK) {
						t.Errorf("%v, want %s", err, want)
					}
					o.ended(t, err)
				})
			})
		}
	}
}

// What an attempt told is gone where the next one has nothing to tell.
func TestACallerIsToldNothingOfAnEarlierAttempt(t *testing.T) {
	var b *bench
	inFakeTime(t, setup{doc: rules(t, listed), answer: func(_ int, s grpc.ServerStream) error {
		if err := s.SendHeader(metadata.Pairs("header", "1")); err != nil {
			return err
		}
		b.refuseDials()
		go b.server.Stop() // which waits for us
		<-s.Context().Done()
		return nil
	}}, func(made *bench) {
		b = made
		var o told
		_, err := b.invoke(b.ctx, o.options()...)
		if failure(t, err).Attempts != 3 || o.header != nil || o.trailer != nil || o.peer.Addr != nil {
			t.Errorf("%v, told %v, %v, %v", err, o.header, o.trailer, o.peer.Addr)
		}
	})
}

// mergingCodec leaves what a message has already, as codecs do that are made for
// speed.
type mergingCodec struct{}

func (mergingCodec) Name() string                  { return "proto" }
func (mergingCodec) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }
func (mergingCodec) Unmarshal(data []byte, v any) error {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(data, v.(proto.Message))
}

// plainReply is a message of a codec that knows no Reset.
type plainReply struct {
	Preset string
	Paths  []string
	notes  map[string]int
}

type plainCodec struct{ mergingCodec }

func (plainCodec) Unmarshal(data []byte, v any) error {
	var m fieldmaskpb.FieldMask
	if err := proto.Unmarshal(data, &m); err != nil {
		return err
	}
	out := v.(*plainReply)
	out.Paths = append(out.Paths, m.GetPaths()...)
	if out.notes == nil {
		out.notes = map[string]int{}
	}
	out.notes[m.GetPaths()[1]]++
	return nil
}

// What the caller put into a reply is there for each attempt, and what an attempt put
// there is not.
func TestAReplyThatCannotBeResetIsAsItWas(t *testing.T) {
	doc := rules(t, `"timeouts":{"attempt":"100ms"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: leavesAMessage}, func(b *bench) {
		got := plainReply{Preset: "of the caller"}
		if err := b.conn.Invoke(b.ctx, get, ping, &got, grpc.ForceCodec(plainCodec{})); err != nil {
			t.Fatal(err)
		}
		if want := []string{"of attempt", "3"}; !slices.Equal(got.Paths, want) || len(got.notes) != 1 || got.Preset != "of the caller" {
			t.Errorf("the reply is %+v", got)
		}
	})
}

// leavesAMessage sends a message in time, and its end only the third time.
func leavesAMessage(n int, s grpc.ServerStream) error {
	if err := s.SendMsg(&fieldmaskpb.FieldMask{Paths: []string{"of attempt", strconv.Itoa(n)}}); err != nil || n == 3 {
		return err
	}
	return hangs(n, s)
}

// A message may come in time and the end of its RPC not.
func TestAReplyHasNothingOfAnEarlierAttempt(t *testing.T) {
	doc := rules(t, `"timeouts":{"attempt":"100ms"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: leavesAMessage}, func(b *bench) {
		var got fieldmaskpb.FieldMask
		if err := b.conn.Invoke(b.ctx, get, ping, &got, grpc.ForceCodec(mergingCodec{})); err != nil {
			t.Fatal(err)
		}
		if want := []string{"of attempt", "3"}; !slices.Equal(got.GetPaths(), want) {
			t.Errorf("the reply is %q", got.GetPaths())
		}
	})
}
