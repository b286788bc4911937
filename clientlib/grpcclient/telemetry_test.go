package grpcclient_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// diary is a tracer that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return d.lines
}

func (d *diary) StartCall(_ context.Context, info engine.CallInfo) engine.Trace {
	d.add("call %s %s to %s of %q", info.Adapter, info.Method, info.URL.Host, info.Upstream)
	return d
}

type spanKey struct{}

func (d *diary) StartAttempt(ctx context.Context, info engine.AttemptInfo, c engine.Carrier) context.Context {
	d.add("attempt %d, after %q of %d", info.Number, c.Get("traceparent"), len(c.Keys()))
	c.Set("Traceparent", fmt.Sprint("span-", info.Number))
	return context.WithValue(ctx, spanKey{}, info.Number)
}

func (d *diary) AttemptDone(e engine.AttemptEvent) {
	d.add("attempt %d done, OK %t, status %d", e.Number, e.OK, e.Status)
}
func (d *diary) CallDone(e engine.CallEvent) { d.add("call done, OK %t, status %d", e.OK, e.Status) }
func (d *diary) End(_ time.Time, b engine.BodyEvent) {
	d.add("end, OK %t, status %d", b.OK, b.Status)
}

func TestCallsAreTraced(t *testing.T) {
	d := &diary{}
	var inside []any
	below := grpc.WithChainUnaryInterceptor(func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		inside = append(inside, ctx.Value(spanKey{}))
		return next(ctx, m, req, reply, cc, opts...)
	})
	s := setup{
		doc:     rules(t, `"circuitBreaker":{"failures":1},`+listed),
		answer:  failsTimes(1, fails(codes.Unavailable)),
		options: []clientlib.Option{clientlib.WithTracer(d)},
		dial:    []grpc.DialOption{below},
	}
	inFakeTime(t, s, func(b *bench) {
		ctx := metadata.AppendToOutgoingContext(b.ctx, "traceparent", "theirs", "x-tenant", "a")
		if _, err := b.invoke(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`call grpc /shop.Orders/Get to orders:8080 of "orders"`,
			`attempt 1, after "theirs" of 2`, "attempt 1 done, OK false, status 14",
			`attempt 2, after "theirs" of 2`, "attempt 2 done, OK true, status 0",
			"call done, OK true, status 0", "end, OK true, status 0",
		}
		if got := d.read(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if !slices.Equal(inside, []any{1, 2}) {
			t.Errorf("interceptors below saw the spans %v", inside)
		}
		for i, r := range b.requests() {
			if got := r.md["traceparent"]; !slices.Equal(got, []string{fmt.Sprint("span-", i+1)}) || !slices.Equal(r.md["x-tenant"], []string{"a"}) {
				t.Errorf("request %d has %v", i+1, r.md)
			}
		}
		if md, _ := metadata.FromOutgoingContext(ctx); !slices.Equal(md["traceparent"], []string{"theirs"}) {
			t.Errorf("the caller's metadata was changed: %v", md)
		}
	})
}

func TestEveryTraceEndsOnce(t *testing.T) {
	d := &diary{}
	s := setup{
		doc:     rules(t, `"timeouts":{"total":"1s","bodyIdle":"1s"},"circuitBreaker":{"failures":2}`),
		options: []clientlib.Option{clientlib.WithTracer(d)},
	}
	ends := func(b *bench, name string, want string, call func()) {
		call()
		lines := d.read()
		n := 0
		for _, l := range lines {
			if len(l) > 3 && l[:3] == "end" {
				n++
			}
		}
		if n != 1 || lines[len(lines)-1] != want {
			b.t.Errorf("%s: %q", name, lines)
		}
	}
	s.answer = func(n int, stream grpc.ServerStream) error {
		switch n {
		case 1:
			return fails(codes.NotFound)(n, stream)
		case 2:
			return drips(1, 0)(n, stream)
		case 3:
			_ = drips(1, 0)(n, stream)
			return hangs(n, stream)
		default:
			return hangs(n, stream)
		}
	}
	inFakeTime(t, s, func(b *bench) {
		ends(b, "a failing answer", "end, OK true, status 0", func() { _, _ = b.invoke(b.ctx) })
		ends(b, "a stream", "end, OK true, status 0", func() { _, _ = drain(b.mustWatch(b.ctx)) })
		ends(b, "a stream that stalls", "end, OK false, status -1", func() { _, _ = drain(b.mustWatch(b.ctx)) })
		ends(b, "a timeout", "end, OK true, status 0", func() { _, _ = b.invoke(b.ctx) })
		ends(b, "a stream without headers", "end, OK true, status 0", func() { _, _ = drain(b.mustWatch(b.ctx)) })
		ends(b, "an open circuit", "end, OK true, status 0", func() { _, _ = b.invoke(b.ctx) })
		ends(b, "a caller who left", "end, OK true, status 0", func() {
			ctx, cancel := context.WithCancel(b.ctx)
			cancel()
			_, _ = b.invoke(ctx)
		})
	})
}

// Hosts without a policy are traced too, and cost nothing else.
func TestHostsWithoutAPolicyAreTraced(t *testing.T) {
	d := &diary{}
	s := setup{doc: rules(t, ""), answer: replies, options: []clientlib.Option{clientlib.WithTracer(d)}, target: "passthrough:///elsewhere:80"}
	inFakeTime(t, s, func(b *bench) {
		if _, err := b.invoke(b.ctx); err != nil {
			t.Error(err)
		}
		if got := d.read(); len(got) != 5 || got[0] != `call grpc /shop.Orders/Get to elsewhere:80 of ""` {
			t.Errorf("%q", got)
		}
		if len(b.events.Calls()) != 0 {
			t.Errorf("events %+v", b.events.Calls())
		}
	})
}

func TestTheRouteOfTheCallSite(t *testing.T) {
	inFakeTime(t, setup{doc: rules(t, listed), answer: replies}, func(b *bench) {
		if _, err := b.invoke(clientlib.WithCall(b.ctx, clientlib.Route("orders by id"))); err != nil {
			t.Error(err)
		}
		if e := last(t, b.events); e.Route != "orders by id" {
			t.Errorf("event %+v", e)
		}
	})
}
