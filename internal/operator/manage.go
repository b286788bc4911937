package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/timeout-operator/timeout-operator/controllers"
)

// shutdownTimeout is how long reconciles under way may take to end.
const shutdownTimeout = 10 * time.Second

// ErrManager means that a manager with leader election ended by itself, most
// often because the lease was lost. The process must end: see the package.
var ErrManager = errors.New("the manager ended")

// manage runs one manager. It returns nil when the context ended or when it is
// time to go back to the gate.
func (o *Operator) manage(ctx context.Context, config *rest.Config, gate *gate) error {
	defer o.metrics.Reset()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	guard := &watchdog{
		gate: gate, state: o.state, stop: stop,
		interval: o.options.CheckInterval, patience: o.options.RestartAfter,
		trouble: make(chan struct{}, 1),
	}
	mgr, err := o.newManager(ctx, config, guard)
	if err != nil {
		// The gate was open a moment ago, so this is most likely passing; the
		// gate says what it is if it is not.
		o.state.notReady(classify(err, "start the manager"))
		pause(ctx, o.options.CheckInterval)
		return nil
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		guard.run(ctx)
	}()
	err = mgr.Start(ctx)
	stop(nil)
	<-watched
	var why *NotReadyError
	switch {
	case err != nil && o.options.LeaderElection.Enabled:
		return fmt.Errorf("%w: %w", ErrManager, err)
	case err != nil:
		o.state.notReady(classify(err, "run the manager"))
		pause(ctx, o.options.CheckInterval)
	case errors.As(context.Cause(ctx), &why):
		o.state.notReady(why)
	}
	return nil
}

// newManager sets the manager up, the same for the command and the tests.
func (o *Operator) newManager(ctx context.Context, restConfig *rest.Config, guard *watchdog) (manager.Manager, error) {
	caches := controllers.CacheOptions(o.options.Namespaces...)
	caches.DefaultWatchErrorHandler = guard.watchFailed
	// A read of an object waits for this process's own writes to it, so that a
	// reconcile never repeats what the one before it did. controller-runtime cannot do that for
	// more than one cached namespace; there a write may be repeated, with no
	// effect.
	consistent := len(o.options.Namespaces) <= 1
	election := o.options.LeaderElection
	scheme, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	log := logr.FromSlogHandler(&endingHandler{o.log.Handler(), ctx})
	mgr, err := manager.New(restConfig, manager.Options{
		Scheme:                        scheme,
		Logger:                        log,
		Cache:                         caches,
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}},
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Controller:                    config.Controller{Logger: log},
		GracefulShutdownTimeout:       new(shutdownTimeout),
		LeaderElection:                election.Enabled,
		LeaderElectionID:              LeaseName,
		LeaderElectionNamespace:       election.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 orNil(election.LeaseDuration),
		RenewDeadline:                 orNil(election.RenewDeadline),
		RetryPeriod:                   orNil(election.RetryPeriod),
	})
	if err != nil {
		return nil, err
	}
	// The informers exist before the start, so that being started means being
	// synced.
	for _, object := range controllers.WatchedObjects(!o.options.Plan.ReportingDisabled) {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return nil, err
		}
	}
	if err := mgr.Add(&afterSync{guard}); err != nil {
		return nil, err
	}
	return mgr, controllers.SetUp(ctx, mgr, controllers.Options{
		Plan:           o.options.Plan,
		Namespaces:     o.options.Namespaces,
		ReportDebounce: o.options.ReportDebounce,
		Concurrency:    o.options.Concurrency,
		Metrics:        o.metrics,
		Now:            o.options.Now,
	})
}

func orNil(d time.Duration) *time.Duration {
	if d <= 0 {
		return nil
	}
	return &d
}
