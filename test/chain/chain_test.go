package chain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
	"github.com/timeout-operator/timeout-operator/clientlib/grpcserver"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// chain is a caller and three services, each of which calls the next:
//
//	caller ─http─▶ gate ─grpc─▶ orders ─http─▶ stock
//
// stock never answers.
type chain struct {
	t     *testing.T
	http  *http.Client // the caller's
	place network

	mu     sync.Mutex
	has    map[string]time.Duration // left when a service began to serve; -1 for no budget
	events []event

	// stuck services do not answer by themselves when their call has failed.
	stuck map[string]bool
}

// event is the end of something.
type event struct {
	what string
	at   time.Time
	err  error
}

// network is what the services listen on and are called through.
type network struct {
	listen    func(name string) net.Listener
	transport func() *http.Transport
	dialGRPC  grpc.DialOption
}

// settings of all hops.
type settings struct {
	total, reserve time.Duration
	header         string
	trust          deadline.Option
}

func start(t *testing.T, n network, s settings, stuck ...string) *chain {
	t.Helper()
	c := &chain{t: t, place: n, has: map[string]time.Duration{}, stuck: map[string]bool{}}
	for _, name := range stuck {
		c.stuck[name] = true
	}
	incoming := []deadline.Option{s.trust, deadline.RefuseSpent()}
	c.serveHTTP("stock", deadline.Middleware(http.HandlerFunc(c.stock), incoming...))
	c.serveGRPC("orders", &orders{chain: c, http: c.client("orders", "stock", s)}, incoming)
	c.serveHTTP("gate", deadline.Middleware(&gate{chain: c, orders: c.grpcClient("gate", "orders", s)}, incoming...))
	c.http = c.client("caller", "gate", s)
	return c
}

// policy is the one of a service for calls of the next.
func (c *chain) policy(name, next string, s settings) *clientlib.Client {
	c.t.Helper()
	timeouts := ""
	if name == "caller" {
		timeouts = fmt.Sprintf(`"timeouts":{"total":"%dms"},`, s.total.Milliseconds())
	}
	doc, err := document.Parse(fmt.Appendf(nil, `{"schema":1,"upstreams":[{"name":%q,"hosts":[%q],%s"deadline":{"header":%q,"reserve":"%dms"}}]}`,
		next, next, timeouts, s.header, s.reserve.Milliseconds()))
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := clientlib.New(c.t.Context(), name, clientlib.WithSource(source.Static(doc)),
		clientlib.WithReporter(nil), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *chain) client(name, next string, s settings) *http.Client {
	h := &http.Client{Transport: nethttp.NewTransport(c.policy(name, next, s), c.place.transport())}
	c.t.Cleanup(h.CloseIdleConnections)
	return h
}

func (c *chain) grpcClient(name, next string, s settings) health.HealthClient {
	c.t.Helper()
	opts := append(grpcclient.DialOptions(c.policy(name, next, s)), c.place.dialGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+next, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return health.NewHealthClient(conn)
}

func (c *chain) serveHTTP(name string, h http.Handler) {
	server := &http.Server{Handler: h}
	var served sync.WaitGroup
	l := c.place.listen(name)
	served.Go(func() { _ = server.Serve(l) })
	c.t.Cleanup(func() { _ = server.Close(); served.Wait() })
}

func (c *chain) serveGRPC(name string, h health.HealthServer, opts []deadline.Option) {
	server := grpc.NewServer(grpcserver.ServerOptions(opts...)...)
	health.RegisterHealthServer(server, h)
	var served sync.WaitGroup
	l := c.place.listen(name)
	served.Go(func() { _ = server.Serve(l) })
	c.t.Cleanup(func() { server.Stop(); served.Wait() })
}

func (c *chain) begin(name string, ctx context.Context) {
	left, ok := deadline.Remaining(ctx)
	if !ok {
		left = -1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has[name] = left
}

func (c *chain) ended(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event{what, time.Now(), err})
}

// hang waits until nobody waits for the answer any more.
func (c *chain) hang(name string, ctx context.Context) {
	if c.stuck[name] {
		<-ctx.Done()
	}
}

// event returns how something ended.
func (c *chain) event(what string) event {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.what == what {
			return e
		}
	}
	c.t.Fatalf("%s did not end", what)
	return event{}
}

// call is what the caller does.
func (c *chain) call(ctx context.Context) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gate/", nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	defer func() { c.ended("caller's call", err) }()
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// gate calls orders.
type gate struct {
	*chain
	orders health.HealthClient
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.begin("gate", r.Context())
	_, err := g.orders.Check(r.Context(), &health.HealthCheckRequest{})
	g.ended("gate's call", err)
	g.hang("gate", r.Context())
	if err != nil {
		http.Error(w, "no answer from orders", http.StatusGatewayTimeout)
	}
}

// orders calls stock.
type orders struct {
	health.UnimplementedHealthServer
	*chain
	http *http.Client
}

func (o *orders) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	o.begin("orders", ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://stock/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := o.http.Do(req)
	o.ended("orders' call", err)
	o.hang("orders", ctx)
	if err != nil {
		return nil, status.Error(codes.DeadlineExceeded, "no answer from stock")
	}
	defer resp.Body.Close()
	return &health.HealthCheckResponse{}, nil
}

// stock never answers.
func (c *chain) stock(_ http.ResponseWriter, r *http.Request) {
	c.begin("stock", r.Context())
	<-r.Context().Done()
	c.ended("stock", r.Context().Err())
}

// limitOf returns the engine's error, which says whose limit ended a call.
func limitOf(t *testing.T, err error) *clientlib.Error {
	t.Helper()
	var e *clientlib.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no error of the engine", err, err)
	}
	return e
}
