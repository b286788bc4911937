// Package operator runs the controllers for as long as the process lives: it
// waits until the API server has the kinds and grants the rights, starts a
// manager, watches over both, and starts over when they go away. /readyz and one
// line in the log say at any time what is missing; nothing of it ends the
// process.
//
// What does end it is a lost lease: another process may be at work by then, and
// only an exit is sure to stop this one. Its supervisor (the kubelet) starts it
// again.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/timeout-operator/timeout-operator/controllers"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// Options of the operator. Zero fields have the defaults that they name.
type Options struct {
	// Config loads the connection to the API server. It is called for each
	// start, so that a changed kubeconfig or certificate is noticed. Required.
	Config func() (*rest.Config, error)
	// MetricsAddress and HealthAddress are listened on, such as ":8080"; empty
	// and "0" mean not at all.
	MetricsAddress, HealthAddress string
	// PprofAddress is where net/http/pprof listens; empty and "0" mean not at all.
	// Profiles tell names and take processor time from whoever asks, so it is for
	// loopback addresses, as kubectl port-forward reaches them.
	PprofAddress string
	// LeaderElection lets one of several processes work.
	LeaderElection LeaderElection
	// Namespaces to watch; none means all.
	Namespaces []string
	// Plan are the planner's options.
	Plan plan.Options
	// ReportDebounce as in controllers.Options.
	ReportDebounce time.Duration
	// Concurrency as in controllers.Options.
	Concurrency int
	// CheckInterval is how often the API server is asked whether the operator
	// can work. Zero means 5s.
	CheckInterval time.Duration
	// RestartAfter is how long the API server may be away before the connection
	// is loaded and made anew. Zero means 1m.
	RestartAfter time.Duration
	// Registry of the metrics. Nil means the one of controller-runtime, which
	// has its metrics too.
	Registry metrics.RegistererGatherer
	// Log receives everything. Nil means slog.Default().
	Log *slog.Logger
	// Now is the clock that documents and statuses are dated by. Required.
	Now func() time.Time
}

// LeaderElection settings. Zero durations have the defaults of
// controller-runtime: 15s, 10s and 2s.
type LeaderElection struct {
	Enabled bool
	// Namespace of the lease. Empty means the one that the process runs in.
	Namespace                                 string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// LeaseName is the name of the lease of leader election.
const LeaseName = "manager.timeout-operator.dev"

const (
	defaultCheckInterval = 5 * time.Second
	defaultRestartAfter  = time.Minute
	namespaceFile        = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Operator is one process of the operator. Make it with [New].
type Operator struct {
	options Options
	log     *slog.Logger
	state   *readiness
	metrics *controllers.Metrics
	health  net.Listener
	scrape  net.Listener
	pprof   net.Listener
}

// New takes the addresses, so that one that is taken is an error at once. It
// does not talk to the API server.
func New(options Options) (*Operator, error) {
	if options.Config == nil || options.Now == nil {
		return nil, errors.New("operator: Options.Config and Options.Now are required")
	}
	options.CheckInterval = orDefault(options.CheckInterval, defaultCheckInterval)
	options.RestartAfter = orDefault(options.RestartAfter, defaultRestartAfter)
	if options.Registry == nil {
		options.Registry = metrics.Registry
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if election := &options.LeaderElection; election.Enabled && election.Namespace == "" {
		namespace, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, errors.New("leader election outside of a cluster needs --leader-election-namespace")
		}
		election.Namespace = strings.TrimSpace(string(namespace))
	}
	collected, err := controllers.NewMetrics(options.Registry)
	if err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	o := &Operator{
		options: options,
		log:     options.Log,
		state:   newReadiness(options.Log),
		metrics: collected,
	}
	if o.health, err = listen(options.HealthAddress); err != nil {
		return nil, fmt.Errorf("health address: %w", err)
	}
	if o.scrape, err = listen(options.MetricsAddress); err != nil {
		o.close()
		return nil, fmt.Errorf("metrics address: %w", err)
	}
	if o.pprof, err = listen(options.PprofAddress); err != nil {
		o.close()
		return nil, fmt.Errorf("pprof address: %w", err)
	}
	return o, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

func listen(address string) (net.Listener, error) {
	if address == "" || address == "0" {
		return nil, nil
	}
	return net.Listen("tcp", address)
}

func (o *Operator) close() {
	for _, listener := range []net.Listener{o.health, o.scrape, o.pprof} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// HealthAddress and MetricsAddress are what is listened on; empty when nothing
// is.
func (o *Operator) HealthAddress() string { return address(o.health) }

// MetricsAddress see [Operator.HealthAddress].
func (o *Operator) MetricsAddress() string { return address(o.scrape) }

// PprofAddress see [Operator.HealthAddress].
func (o *Operator) PprofAddress() string { return address(o.pprof) }

func address(listener net.Listener) string {
	if listener == nil {
		return ""
	}
	return listener.Addr().String()
}

// Run works until the context ends, which is no error. An error means that the
// process should end; it is not to be called a second time.
func (o *Operator) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var servers sync.WaitGroup
	defer servers.Wait()
	defer stop()
	servers.Go(func() { serve(ctx, o.health, o.healthHandler()) })
	servers.Go(func() { serve(ctx, o.scrape, o.metricsHandler()) })
	servers.Go(func() { serve(ctx, o.pprof, pprofHandler()) })
	for {
		config, gate := o.waitAtGate(ctx)
		if gate == nil {
			o.state.notReady(&NotReadyError{ReasonStopped, "the operator was stopped"})
			return nil
		}
		if err := o.manage(ctx, config, gate); err != nil {
			return err
		}
	}
}

// waitAtGate asks until the operator can work. The gate is nil when the context
// ended first.
func (o *Operator) waitAtGate(ctx context.Context) (*rest.Config, *gate) {
	for ctx.Err() == nil {
		config, gate, why := o.openGate(ctx)
		if why == nil {
			return config, gate
		}
		o.state.notReady(why)
		pause(ctx, o.options.CheckInterval)
	}
	return nil, nil
}

func (o *Operator) openGate(ctx context.Context) (*rest.Config, *gate, *NotReadyError) {
	config, err := o.options.Config()
	if err != nil {
		return nil, nil, &NotReadyError{ReasonNoConfiguration, fmt.Sprintf("no connection to an API server is configured: %v", err)}
	}
	leases := ""
	if o.options.LeaderElection.Enabled {
		leases = o.options.LeaderElection.Namespace
	}
	needs := controllers.RequiredAccess(leases, !o.options.Plan.ReportingDisabled)
	gate, err := newGate(config, o.options.Namespaces, needs)
	if err != nil {
		return nil, nil, &NotReadyError{ReasonNoConfiguration, fmt.Sprintf("the connection to the API server cannot be used: %v", err)}
	}
	return config, gate, gate.check(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func (o *Operator) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/readyz", o.state)
	// Alive as long as it answers: what is missing is not mended by a restart.
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return mux
}

func (o *Operator) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(o.options.Registry, promhttp.HandlerOpts{}))
	return mux
}

func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serve answers until the context ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) {
	if listener == nil {
		return
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.Serve(listener)
}
