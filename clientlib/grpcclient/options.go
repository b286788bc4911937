package grpcclient

import (
	"context"

	"google.golang.org/grpc"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// adapterName is the metric label and the name in reports.
const adapterName = "grpc"

// Option changes what DialOptions returns.
type Option func(*interceptors)

// WithHost says which host policies are looked up for, as "name" or "name:port",
// whatever the target of the connection is. It is for targets that name no
// host, such as "unix:/run/orders.sock", or several, and for those of a resolver
// that has names of its own. A host that cannot be read names none; the client's
// status warns of it.
func WithHost(host string) Option {
	return func(i *interceptors) {
		name, port, err := document.SplitHostPort(host)
		if err != nil || !isHost(name) {
			i.fixed = &target{}
			i.warn("grpcclient.WithHost: " + clip(host) + ` is no host: write "name" or "name:port"; its calls obey no policy`)
			return
		}
		i.fixed = newTarget(name, port)
	}
}

// DialOptions returns the options of a connection whose calls obey the policies
// of c. They may be used for any number of connections. Interceptors that come
// later in the connection's options see each attempt, those that come before
// see each call. Given to one connection twice they count once.
func DialOptions(c *clientlib.Client, opts ...Option) []grpc.DialOption {
	c.UseAdapter(capability.GRPC())
	i := &interceptors{engine: c.Engine(), warn: c.Warn}
	for _, opt := range opts {
		opt(i)
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(i.unary),
		grpc.WithChainStreamInterceptor(i.stream),
		grpc.WithDisableRetry(),
	}
}

// interceptors are what DialOptions puts into a connection. They are safe for
// concurrent use.
type interceptors struct {
	engine  *engine.Engine
	warn    func(string)
	fixed   *target // by WithHost; nil for none
	targets targets
}

// budgetOnly is the policy of a host that no policy names, inside an ambient
// budget or a trace: these hold everywhere.
var budgetOnly = &engine.Policy{MaxAttempts: 1}

// begin opens the call of an RPC; endless says that its limits end at the headers.
// Without a call and without an error the RPC is none of the engine's business;
// an error means that nothing may be sent.
func (i *interceptors) begin(ctx context.Context, cc *grpc.ClientConn, method string, endless bool, opts []grpc.CallOption) (*flight, error) {
	to := i.fixed
	if to == nil {
		to = i.targets.of(cc, i.warn)
	}
	if i.within(to, opts) {
		return nil, nil
	}
	policy := i.engine.Snapshot().Lookup(to.name, to.port, document.Call{GRPC: true, Path: method})
	tracer := i.engine.Tracer()
	if policy == nil {
		if tracer == nil && !i.engine.Limited(ctx) {
			return nil, nil
		}
		policy = budgetOnly
	}
	f := &flight{in: i, to: to, method: method}
	if !endless {
		f.TellsDeadline()
	}
	if tracer != nil {
		f.Trace(ctx, tracer, policy, engine.CallInfo{Adapter: adapterName, Method: method, URL: to.url})
	}
	if err := f.Begin(ctx, i.engine, policy, adapterName, method); err != nil {
		return nil, ownError(err)
	}
	f.patience(opts)
	return f, nil
}

// within reports whether an RPC is an attempt of ours already, since a connection
// has the options of one client twice: attempts would multiply, and each be told
// of as a call.
func (i *interceptors) within(to *target, opts []grpc.CallOption) bool {
	for _, opt := range opts {
		a, ok := opt.(*attempt)
		if !ok || a.flight.in.engine != i.engine || a.flight.to.name != to.name || a.flight.to.port != to.port {
			continue
		}
		if !to.doubled.Swap(true) {
			i.warn("a gRPC connection to " + to.String() + " has grpcclient.DialOptions twice: the second is left out")
		}
		return true
	}
	return false
}

// patience warns of a call under a policy that waits for a connection for as long
// as there is none.
func (f *flight) patience(opts []grpc.CallOption) {
	p := f.Policy
	if !f.End().IsZero() || p.Attempt > 0 && !p.Shadow || p == budgetOnly || f.to.warned.Load() {
		return
	}
	for _, opt := range opts {
		if o, ok := opt.(grpc.FailFastCallOption); ok && !o.FailFast && !f.to.warned.Swap(true) {
			f.in.warn("gRPC calls to " + f.to.String() + " wait for a connection (WaitForReady) without any deadline: set timeouts.total, or give their contexts one")
		}
	}
}
