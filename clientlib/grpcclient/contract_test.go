package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

const (
	// listed lets what fails with these codes be made again: the codes are the
	// operator's word.
	listed = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE","DEADLINE_EXCEEDED"]}`
	// unlisted says nothing of codes.
	unlisted = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"}}`
)

func TestHungServerIsRetriedAndEndsAtTheTotal(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		e := failure(t, err)
		if e.Kind != kinds.TotalTimeout || e.Attempts != 3 || e.Field != "timeouts.total" || e.Limit != time.Second {
			t.Errorf("%v", err)
		}
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) || !e.Timeout() {
			t.Errorf("%v is no timeout of gRPC's and of Go's", err)
		}
		b.took(time.Second)
		b.saw(3)
	})
}

// T10 grpc/grpc-go#6811: a service config's timeout is the call's, not the
// attempt's.
func TestHungServerEndsAfterTheLastCeiling(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"5s","attempt":"400ms"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		e := failure(t, err)
		if e.Kind != kinds.AttemptTimeout || e.Attempts != 3 || e.Skip != kinds.SkipAttempts {
			t.Errorf("%v", err)
		}
		b.took(3*400*time.Millisecond + 30*time.Millisecond)
		b.saw(3)
		for i, r := range b.requests() {
			if r.left != 400*time.Millisecond {
				t.Errorf("request %d was told %s", i+1, r.left)
			}
		}
	})
}

// A29 linkerd/linkerd2#4430 and A28 istio/istio#50506: an RPC is not made twice
// unless somebody says that it may, and why not is told.
func TestAnRPCIsMadeTwiceOnlyWithLeave(t *testing.T) {
	idempotent := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "idempotency-key", "7")
	}
	vouch := func(yes bool) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			return clientlib.WithCall(ctx, clientlib.Idempotent(yes))
		}
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		name    string
		rules   string
		does    answer
		context func(context.Context) context.Context
		want    int
		skip    kinds.SkipReason
	}{
		{"nobody says so", unlisted, fails(codes.Unavailable), plain, 1, kinds.SkipMethod},
		{"nobody says so of a timeout", unlisted, hangs, plain, 1, kinds.SkipMethod},
		{"the policy lists the code", listed, fails(codes.Unavailable), plain, 3, kinds.SkipAttempts},
		{"the policy lists the code of a timeout", listed, hangs, plain, 3, kinds.SkipAttempts},
		{"the policy lists another code", listed, fails(codes.Aborted), plain, 1, kinds.SkipNone},
		{"the policy has POST", `"retry":{"maxAttempts":3,"methods":["POST"]}`, hangs, plain, 3, kinds.SkipAttempts},
		{"the RPC has a key", unlisted, fails(codes.Unavailable), idempotent, 3, kinds.SkipAttempts},
		{"the call site vouches", unlisted, hangs, vouch(true), 3, kinds.SkipAttempts},
		{"the call site forbids", listed, fails(codes.Unavailable), vouch(false), 1, kinds.SkipMethod},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := rules(t, `"timeouts":{"attempt":"400ms"},`+c.rules)
			inFakeTime(t, setup{doc: doc, answer: c.does}, func(b *bench) {
				if _, err := b.invoke(c.context(b.ctx)); err == nil {
					t.Error("the call succeeded")
				}
				b.saw(c.want)
				if skip := last(t, b.events).Skip; skip != c.skip {
					t.Errorf("skipped for %q, not %q", skip, c.skip)
				}
			})
		})
	}
}

// A18 grpc/grpc-go#4615, grafana/pyroscope#3682: what is asked for is what is
// made.
func TestAttemptsAreNeverCappedInSilence(t *testing.T) {
	doc := rules(t, `"retry":{"maxAttempts":8,"backoff":{"initial":"1ms","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE"]}`)
	inFakeTime(t, setup{doc: doc, answer: fails(codes.Unavailable)}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
		b.saw(8)
		if got := last(t, b.events).Attempts; got != 8 {
			t.Errorf("the event tells of %d attempts", got)
		}
	})
}

func TestARetriedCallSucceeds(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, listed), answer: failsTimes(2, fails(codes.Unavailable))}, func(b *bench) {
		reply, err := b.invoke(b.ctx)
		if err != nil || reply != "pong" {
			t.Errorf("reply %q, error %v", reply, err)
		}
		b.saw(3)
		b.took(30 * time.Millisecond)
		if e := last(t, b.events); !e.OK || e.Status != 0 || e.Attempts != 3 || e.Method != get || e.Adapter != "grpc" {
			t.Errorf("event %+v", e)
		}
	})
}

// The status of a server that fails is that of the library: with its details,
// and no error of ours.
func TestTheLastAnswerIsLeftAsItIs(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, listed), answer: fails(codes.Unavailable)}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		var e *clientlib.Error
		if s, ok := status.FromError(err); !ok || s.Code() != codes.Unavailable || s.Message() != "as told" || errors.As(err, &e) {
			t.Errorf("%v (%T)", err, err)
		}
		if e := last(t, b.events); e.OK || e.Kind != kinds.Status || e.Status != int(codes.Unavailable) {
			t.Errorf("event %+v", e)
		}
	})
}

// A10 and T09: without a ceiling the first attempt may use the whole total up.
func TestWithoutACeilingTheTotalCuts(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"3s","attempt":"0s"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Attempts != 1 {
			t.Errorf("%v", err)
		}
		b.took(3 * time.Second)
		if r := b.requests(); len(r) != 1 || r[0].left != 3*time.Second {
			t.Errorf("the server saw %+v", r)
		}
	})
}

// A12 istio/istio#13167: a ceiling without a total cuts all the same.
func TestACeilingWithoutATotalCuts(t *testing.T) {
	doc := rules(t, `"timeouts":{"attempt":"200ms"}`)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		if e := failure(t, err); e.Kind != kinds.AttemptTimeout {
			t.Errorf("%v", err)
		}
		b.took(200 * time.Millisecond)
	})
}

func TestTheCallersDeadlineIsTheCallers(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"},"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		ctx, cancel := context.WithTimeoutCause(b.ctx, 500*time.Millisecond, errPatience)
		defer cancel()
		_, err := b.invoke(ctx)
		e := failure(t, err)
		if e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceCaller || status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, errPatience) {
			t.Errorf("%v", err)
		}
		b.took(500 * time.Millisecond)
		b.saw(1)
		if len(b.events.Circuits()) != 0 {
			t.Errorf("the caller's own deadline moved the circuit: %v", b.events.Circuits())
		}
	})
}

var errPatience = errors.New("out of patience")

func TestTheCallerWhoLeavesIsNeverRepeated(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"},"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		ctx, cancel := context.WithCancelCause(b.ctx)
		time.AfterFunc(300*time.Millisecond, func() { cancel(errPatience) })
		_, err := b.invoke(ctx)
		e := failure(t, err)
		if e.Kind != kinds.Cancelled || status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) || !errors.Is(err, errPatience) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		b.took(300 * time.Millisecond)
		b.saw(1)
		if len(b.events.Circuits()) != 0 {
			t.Errorf("the caller's leaving moved the circuit: %v", b.events.Circuits())
		}
	})
}

func TestACallerWhoLeavesDuringTheBackoff(t *testing.T) {
	doc := rules(t, `"retry":{"maxAttempts":3,"backoff":{"initial":"1s","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE"]}`)
	inFakeTime(t, setup{doc: doc, answer: fails(codes.Unavailable)}, func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		time.AfterFunc(300*time.Millisecond, cancel)
		_, err := b.invoke(ctx)
		if e := failure(t, err); e.Kind != kinds.Cancelled || e.Attempts != 1 {
			t.Errorf("%v", err)
		}
		b.took(300 * time.Millisecond)
		b.saw(1)
	})
}

// golang/go#46206: a context that is dead already costs no request.
func TestADeadContextSendsNothing(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, listed), answer: replies}, func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err := b.invoke(ctx)
		if e := failure(t, err); e.Kind != kinds.Cancelled || e.Attempts != 0 {
			t.Errorf("%v", err)
		}
		b.saw(0)
	})
}

func TestTheTighterOfBudgetAndTotalWins(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"}`)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		ctx := deadline.With(b.ctx, 2*time.Second)
		_, err := b.invoke(ctx)
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget {
			t.Errorf("%v", err)
		}
		b.took(2 * time.Second)
		_, err = b.invoke(deadline.Detach(ctx))
		if e := failure(t, err); e.Source != kinds.SourcePolicy {
			t.Errorf("detached: %v", err)
		}
		b.took(12 * time.Second)
		if r := b.requests(); r[0].left != 2*time.Second || r[1].left != 10*time.Second {
			t.Errorf("the server was told %s and %s", r[0].left, r[1].left)
		}
	})
}

func TestABudgetHoldsWhereNoPolicyNamesTheHost(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, ""), answer: hangs, target: "passthrough:///elsewhere:80"}, func(b *bench) {
		_, err := b.invoke(deadline.With(b.ctx, time.Second))
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget {
			t.Errorf("%v", err)
		}
		b.took(time.Second)
	})
}

// A helper and its user may both bring the options.
func TestOptionsThatAreThereTwiceCountOnce(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"10s"},`+listed)
	inFakeTime(t, setup{doc: doc, answer: fails(codes.Unavailable)}, func(b *bench) {
		opts := append(grpcclient.DialOptions(b.client), grpcclient.DialOptions(b.client)...)
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(b.dial))
		conn, err := grpc.NewClient("passthrough:///orders:8080", opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := roundTrip(b.ctx, conn); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		b.saw(3)
		s, err := conn.NewStream(b.ctx, serverStream, watch)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(reply()); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if n := len(b.events.Calls()); n != 2 {
			t.Errorf("%d calls told of", n)
		}
		if w := b.client.Status().Warnings; len(w) != 1 {
			t.Errorf("warnings %q", w)
		}
	})
}

// What panics on the way is recovered from by who serves, and leaves nothing
// behind: neither a call in flight nor a timer, nor a probe of the circuit.
func TestAPanicEndsItsCall(t *testing.T) {
	panics := errors.New("a codec's panic")
	hit := false
	pass := func() {
		if hit {
			panic(panics)
		}
	}
	unary := func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		pass()
		return next(ctx, m, req, reply, cc, opts...)
	}
	streamed := func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, m string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		pass()
		return next(ctx, d, cc, m, opts...)
	}
	doc := rules(t, `"timeouts":{"total":"10s","attempt":"5s"},"circuitBreaker":{"failures":1,"recovery":"1s"},`+listed)
	dial := []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(streamed)}
	inFakeTime(t, setup{doc: doc, answer: failsTimes(3, fails(codes.Unavailable)), dial: dial}, func(b *bench) {
		_, _ = b.invoke(b.ctx) // opens the circuit
		b.later(time.Second)
		hit = true
		for name, call := range map[string]func(){
			"unary":  func() { _, _ = b.invoke(b.ctx) },
			"stream": func() { _, _ = b.watch(b.ctx) },
		} {
			func() {
				defer func() {
					if got := recover(); got != panics {
						t.Errorf("%s: recovered %v", name, got)
					}
				}()
				call()
			}()
			if n := b.timers.Live(); n != 0 {
				t.Errorf("%s: %d timers are running", name, n)
			}
			if e := last(t, b.events); e.OK || e.Kind != kinds.Unknown || e.Attempts != 1 {
				t.Errorf("%s: event %+v", name, e)
			}
		}
		hit = false
		if _, err := b.invoke(b.ctx); err != nil {
			t.Errorf("the next probe: %v", err)
		}
	})
}

// panickingCodec panics at messages of one side.
type panickingCodec struct {
	mergingCodec
	sends, receives bool
}

func (c panickingCodec) Marshal(v any) ([]byte, error) {
	if c.sends {
		panic("of the codec, at a message to send")
	}
	return c.mergingCodec.Marshal(v)
}

func (c panickingCodec) Unmarshal(data []byte, v any) error {
	if c.receives {
		panic("of the codec, at a message received")
	}
	return c.mergingCodec.Unmarshal(data, v)
}

// The same of a codec, which works while a stream is sent and received.
func TestAPanicOfACodecEndsItsCall(t *testing.T) {
	doc := rules(t, `"timeouts":{"bodyIdle":"1h"},"circuitBreaker":{"failures":1,"recovery":"1s"}`)
	streams := map[string]*grpc.StreamDesc{"unary": nil, "server stream": serverStream, "client stream": clientStream, "both": bothStreams}
	for name, desc := range streams {
		for _, codec := range []panickingCodec{{sends: true}, {receives: true}} {
			t.Run(fmt.Sprintf("%s, sending %t", name, codec.sends), func(t *testing.T) {
				inFakeTime(t, setup{doc: doc, answer: failsTimes(1, fails(codes.Unavailable))}, func(b *bench) {
					_, _ = b.invoke(b.ctx) // opens the circuit
					b.later(time.Second)
					func() {
						defer func() { _ = recover() }()
						callWith(b, desc, grpc.ForceCodec(codec))
						t.Error("nothing panicked")
					}()
					b.later(time.Millisecond)
					if n := b.timers.Live(); n != 0 {
						t.Errorf("%d timers are running", n)
					}
					if n := len(b.events.Calls()); n != 2 {
						t.Errorf("%d calls are told of", n)
					}
					if _, err := b.invoke(b.ctx); err != nil {
						t.Errorf("the next probe: %v", err)
					}
				})
			})
		}
	}
}

// callWith makes a unary call, or a stream with a message each way.
func callWith(b *bench, desc *grpc.StreamDesc, opts ...grpc.CallOption) {
	if desc == nil {
		_, _ = b.invoke(b.ctx, opts...)
		return
	}
	s, err := b.conn.NewStream(b.ctx, desc, chat, opts...)
	if err != nil {
		b.t.Error(err)
		return
	}
	_ = s.SendMsg(ping)
	_ = s.CloseSend()
	_ = s.RecvMsg(reply())
}

// T05 hashicorp/go-retryablehttp#272.
func TestWaitsThatDoNotFitAreNotBegun(t *testing.T) {
	for name, does := range map[string]answer{
		"backoff":  fails(codes.Unavailable),
		"pushback": pushesBack("60000"),
	} {
		t.Run(name, func(t *testing.T) {
			doc := rules(t, `"timeouts":{"total":"1s"},"retry":{"maxAttempts":9,"backoff":{"initial":"300ms","max":"300ms","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE"]}`)
			inFakeTime(t, setup{doc: doc, answer: does}, func(b *bench) {
				_, err := b.invoke(b.ctx)
				if status.Code(err) != codes.Unavailable {
					t.Errorf("%v", err)
				}
				if e := last(t, b.events); e.Skip != kinds.SkipDeadline || e.Kind != kinds.Status {
					t.Errorf("event %+v", e)
				}
				want := 4
				if name == "pushback" {
					want = 1
				}
				b.saw(want)
				b.took(time.Duration(want-1) * 300 * time.Millisecond)
			})
		})
	}
}

func TestPushback(t *testing.T) {
	const policy = `"retry":{"maxAttempts":2,"backoff":{"initial":"10ms","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE"]`
	for _, c := range []struct {
		name   string
		rules  string
		values []string
		want   int
		took   time.Duration
	}{
		{"is waited for", policy + `}`, []string{"500"}, 2, 500 * time.Millisecond},
		{"shorter than the backoff", policy + `}`, []string{"1"}, 2, 10 * time.Millisecond},
		{"zero", policy + `}`, []string{"0"}, 2, 10 * time.Millisecond},
		{"negative", policy + `}`, []string{"-1"}, 1, 0},
		{"no number", policy + `}`, []string{"soon"}, 1, 0},
		{"twice", policy + `}`, []string{"1", "2"}, 1, 0},
		{"bounded", policy + `,"retryAfter":{"max":"2s"}}`, []string{"3600000"}, 2, 2 * time.Second},
		{"absurd", policy + `,"retryAfter":{"max":"2s"}}`, []string{"9223372036854775807"}, 2, 2 * time.Second},
		{"beyond every number", policy + `}`, []string{"9223372036854775808"}, 1, 0},
		{"ignored", policy + `,"retryAfter":{"mode":"Ignore"}}`, []string{"500"}, 2, 10 * time.Millisecond},
		{"no other attempt, though every status is listed", `"retry":{"maxAttempts":2,"methods":["POST"],"retryableKinds":["Status"]}`, []string{"-1"}, 1, 0},
		{"a refusal ignored", policy + `,"retryAfter":{"mode":"Ignore"}}`, []string{"-1"}, 2, 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, setup{doc: rules(t, c.rules), answer: failsTimes(1, pushesBack(c.values...))}, func(b *bench) {
				if _, err := b.invoke(b.ctx); (err == nil) != (c.want == 2) {
					t.Errorf("error %v", err)
				}
				b.saw(c.want)
				b.took(c.took)
			})
		})
	}
}

func TestTheServerIsToldWhatIsLeft(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"},"deadline":{"header":"X-Deadline-Ms","reserve":"50ms"},`+listed)
	ctx := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "x-deadline-ms", "99999", "x-tenant", "a")
	}
	inFakeTime(t, setup{doc: doc, answer: failsTimes(2, after(200*time.Millisecond, fails(codes.Unavailable)))}, func(b *bench) {
		if _, err := b.invoke(ctx(b.ctx)); err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			left   time.Duration
			header string
		}{{950 * time.Millisecond, "950"}, {740 * time.Millisecond, "740"}, {520 * time.Millisecond, "520"}} {
			r := b.requests()[i]
			if r.left != want.left || !slices.Equal(r.md["x-deadline-ms"], []string{want.header}) || !slices.Equal(r.md["x-tenant"], []string{"a"}) {
				t.Errorf("request %d was told %s and %v", i+1, r.left, r.md)
			}
		}
	})
}

// What a program passes on of the request that it serves is not what its own call
// has left.
func TestADeadlineThatIsPassedOnIsReplaced(t *testing.T) {
	doc := rules(t, `"deadline":{"header":"X-Envoy-Expected-Rq-Timeout-Ms"},"routes":[{"name":"long","match":{"grpc":{"method":"Get"}},"timeouts":{"total":"1s"},"deadline":{"header":"X-Envoy-Expected-Rq-Timeout-Ms"}}]`)
	inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
		ctx := metadata.AppendToOutgoingContext(b.ctx, "x-envoy-expected-rq-timeout-ms", "5")
		for _, method := range []string{get, "/shop.Orders/List"} {
			if err := b.conn.Invoke(ctx, method, ping, reply()); err != nil {
				t.Error(err)
			}
		}
		const key = "x-envoy-expected-rq-timeout-ms"
		if r := b.requests(); !slices.Equal(r[0].md[key], []string{"1000"}) || len(r[1].md[key]) != 0 {
			t.Errorf("the server was told %v and %v", r[0].md[key], r[1].md[key])
		}
	})
}

// Names of HTTP fields may have marks that metadata must not have. A policy for
// both breaks no call.
func TestADeadlineHeaderThatGRPCCannotSend(t *testing.T) {
	for _, name := range []string{"X-Deadline!", "x*left", "X-Deadline-Ms", "x_left", "X.Left", "Grpc-Timeout", "X-Left-Bin"} {
		doc := rules(t, `"timeouts":{"total":"1s"},"deadline":{"header":"`+name+`"}`)
		inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
			for range 2 {
				if _, err := b.invoke(b.ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if left := b.requests()[0].left; left != time.Second {
				t.Errorf("%s: the server was told %s", name, left)
			}
			if w := b.client.Status().Warnings; len(w) == 1 != strings.ContainsAny(name, "!*") {
				t.Errorf("%s: warnings %q", name, w)
			}
		})
	}
}

// A server that keeps the deadline that it was told answers before the limit
// itself passes: the limit it is all the same.
func TestAServerThatKeepsToItsDeadline(t *testing.T) {
	obeys := func(_ int, s grpc.ServerStream) error {
		<-s.Context().Done()
		return status.FromContextError(s.Context().Err()).Err()
	}
	t.Run("of the call", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"total":"1s"},"deadline":{"reserve":"50ms"},`+listed)
		inFakeTime(t, setup{doc: doc, answer: obeys}, func(b *bench) {
			_, err := b.invoke(b.ctx)
			if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Field != "deadline.reserve" || e.Attempts != 1 {
				t.Errorf("%v", err)
			}
			b.took(950 * time.Millisecond)
		})
	})
	t.Run("of the attempt", func(t *testing.T) {
		doc := rules(t, `"timeouts":{"attempt":"100ms"},`+listed)
		inFakeTime(t, setup{doc: doc, answer: obeys}, func(b *bench) {
			_, err := b.invoke(b.ctx)
			if e := failure(t, err); e.Kind != kinds.AttemptTimeout || e.Attempts != 3 {
				t.Errorf("%v", err)
			}
		})
	})
}

func TestTheReserveLeavesNothingToTell(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"},"deadline":{"reserve":"20ms"}`)
	inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
		_, err := b.invoke(deadline.With(b.ctx, 20*time.Millisecond))
		if e := failure(t, err); e.Kind != kinds.TotalTimeout || e.Source != kinds.SourceBudget || e.Attempts != 0 {
			t.Errorf("%v", err)
		}
		b.saw(0)
	})
}

func TestRoutesByServiceAndMethod(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s"},"routes":[
		{"name":"service","match":{"grpc":{"service":"shop.Orders"}},"timeouts":{"total":"2s"}},
		{"name":"get","match":{"grpc":{"service":"shop.Orders","method":"Get"}},"timeouts":{"total":"3s"}},
		{"name":"http","match":{"path":"/shop.Orders/"},"timeouts":{"total":"4s"}}]`)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		for _, c := range []struct {
			method, route string
			took          time.Duration
		}{{get, "get", 3 * time.Second}, {"/shop.Orders/List", "service", 2 * time.Second}, {"/shop.Carts/Get", "", time.Second}} {
			b.start = time.Now()
			err := b.conn.Invoke(b.ctx, c.method, ping, reply())
			if e := failure(t, err); e.Kind != kinds.TotalTimeout {
				t.Errorf("%s: %v", c.method, err)
			}
			b.took(c.took)
			if got := last(t, b.events).Route; got != c.route {
				t.Errorf("%s took the route %q", c.method, got)
			}
		}
	})
}

func TestTheRetryBudgetBoundsRetries(t *testing.T) {
	doc := rules(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"},"retryableGRPCCodes":["UNAVAILABLE"],"budget":{"percent":10,"burst":2}}`)
	inFakeTime(t, setup{doc: doc, answer: fails(codes.Unavailable)}, func(b *bench) {
		for range 5 {
			_, _ = b.invoke(b.ctx)
		}
		b.saw(7)
		if e := last(t, b.events); e.Skip != kinds.SkipBudget {
			t.Errorf("event %+v", e)
		}
	})
}

// T13 nandlabs/golly#215.
func TestTheCircuitOpensAndCloses(t *testing.T) {
	doc := rules(t, `"circuitBreaker":{"failures":2,"recovery":"10s"}`)
	inFakeTime(t, setup{doc: doc, answer: failsTimes(3, fails(codes.Internal))}, func(b *bench) {
		for range 2 {
			_, _ = b.invoke(b.ctx)
		}
		_, err := b.invoke(b.ctx)
		e := failure(t, err)
		if e.Kind != kinds.CircuitOpen || e.RetryAfter != 10*time.Second || status.Code(err) != codes.Unavailable || e.Attempts != 0 {
			t.Errorf("%v", err)
		}
		b.saw(2)
		b.later(10 * time.Second)
		if _, err := b.invoke(b.ctx); status.Code(err) != codes.Internal {
			t.Errorf("the probe: %v", err)
		}
		if _, err := b.invoke(b.ctx); failure(t, err).Kind != kinds.CircuitOpen {
			t.Errorf("after a failing probe: %v", err)
		}
		b.later(10 * time.Second)
		for range 2 {
			if _, err := b.invoke(b.ctx); err != nil {
				t.Errorf("after a good probe: %v", err)
			}
		}
		want := []engine.CircuitState{engine.CircuitOpened, engine.CircuitHalfOpen, engine.CircuitOpened, engine.CircuitHalfOpen, engine.CircuitClosed}
		if !slices.Equal(b.events.Circuits(), want) {
			t.Errorf("the circuit went %v", b.events.Circuits())
		}
	})
}

// Codes that blame the caller say nothing against the server.
func TestOnlyCodesOfTheServersFaultTrip(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			inFakeTime(t, setup{doc: rules(t, `"circuitBreaker":{"failures":1}`), answer: fails(code)}, func(b *bench) {
				_, err := b.invoke(b.ctx)
				if status.Code(err) != code {
					t.Errorf("%v", err)
				}
				trips := map[codes.Code]bool{codes.Unknown: true, codes.DeadlineExceeded: true, codes.Unimplemented: true, codes.Internal: true, codes.Unavailable: true, codes.DataLoss: true}
				if opened := len(b.events.Circuits()) == 1; opened != trips[code] {
					t.Errorf("opened %t", opened)
				}
			})
		})
	}
}

func TestShadowChangesNothing(t *testing.T) {
	doc := rules(t, `"mode":"Shadow","timeouts":{"total":"100ms","attempt":"50ms"},"deadline":{"header":"X-Deadline-Ms"},"circuitBreaker":{"failures":1},`+listed)
	inFakeTime(t, setup{doc: doc, answer: failsTimes(1, after(time.Second, fails(codes.Unavailable)))}, func(b *bench) {
		if _, err := b.invoke(b.ctx); status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
		b.took(time.Second)
		b.saw(1)
		if r := b.requests()[0]; r.left != -1 || len(r.md["x-deadline-ms"]) != 0 {
			t.Errorf("the server was told %s and %v", r.left, r.md)
		}
		if want := []string{"attempt", "total", "retry"}; !slices.Equal(b.events.WouldCut(), want) {
			t.Errorf("would have cut %v", b.events.WouldCut())
		}
		if _, err := b.invoke(b.ctx); err != nil {
			t.Errorf("the circuit of a policy in mode Shadow: %v", err)
		}
	})
}

// Retries of a service config would multiply with ours.
func TestRetriesOfAServiceConfigAreOff(t *testing.T) {
	native := grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`)
	inFakeTime(t, setup{doc: rules(t, listed), answer: fails(codes.Unavailable), dial: []grpc.DialOption{native}}, func(b *bench) {
		if _, err := b.invoke(b.ctx); status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
		b.saw(3)
	})
}

// A limit of the library's own, such as a service config's, is a kind of its own.
func TestATimeoutOfAServiceConfigIsNotOurs(t *testing.T) {
	native := grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"timeout":"0.2s"}]}`)
	doc := rules(t, `"timeouts":{"total":"10s"}`)
	inFakeTime(t, setup{doc: doc, answer: func(_ int, s grpc.ServerStream) error { time.Sleep(time.Second); return nil }, dial: []grpc.DialOption{native}}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		if e := failure(t, err); e.Kind != kinds.ReadTimeout || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
		b.took(200 * time.Millisecond)
	})
}

// T19 envoyproxy/gateway#8193: what an interceptor below takes counts.
func TestADelayUnderneathCounts(t *testing.T) {
	slow := grpc.WithChainUnaryInterceptor(func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		timer := time.NewTimer(65 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return next(ctx, m, req, reply, cc, opts...)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	})
	inFakeTime(t, setup{doc: rules(t, `"timeouts":{"total":"60ms"}`), answer: replies, dial: []grpc.DialOption{slow}}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		if e := failure(t, err); e.Kind != kinds.TotalTimeout {
			t.Errorf("%v", err)
		}
		b.took(60 * time.Millisecond)
	})
}

// T18 chainguard-dev/go-grpc-kit#551: nobody waits for ever unseen.
func TestWaitingForReadyWithoutAnEnd(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, listed), answer: replies}, func(b *bench) {
		b.refuseDials()
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, cancel)
		if _, err := b.invoke(ctx, grpc.WaitForReady(true)); failure(t, err).Kind != kinds.Cancelled {
			t.Errorf("%v", err)
		}
		if w := b.client.Status().Warnings; len(w) != 0 {
			t.Errorf("a call with a deadline is warned of: %v", w)
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() { _, err := b.invoke(b.ctx, grpc.WaitForReady(true)); ended <- err }()
		}
		b.later(time.Hour)
		if len(ended) != 0 {
			t.Errorf("a call without an end ended: %v", <-ended)
		}
		if w := b.client.Status().Warnings; len(w) != 1 {
			t.Errorf("warnings %v", w)
		}
		if err := b.conn.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			err := <-ended
			if e := failure(t, err); e.Kind != kinds.Cancelled || status.Code(err) != codes.Canceled {
				t.Errorf("after Close: %v", err)
			}
		}
	})
}

// Nothing of a call that waits for a connection was sent, so that it may be made
// again whoever says what.
func TestWaitingForAConnectionIsRepeated(t *testing.T) {
	doc := rules(t, `"timeouts":{"attempt":"100ms"},`+unlisted)
	inFakeTime(t, setup{doc: doc, answer: replies}, func(b *bench) {
		b.refuseDials()
		_, err := b.invoke(b.ctx, grpc.WaitForReady(true))
		if e := failure(t, err); e.Kind != kinds.AttemptTimeout || e.Attempts != 3 {
			t.Errorf("%v", err)
		}
		b.took(330 * time.Millisecond)
	})
}
