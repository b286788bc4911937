package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// Options of the controllers. Zero fields have the defaults that they name.
type Options struct {
	// Plan are the planner's options.
	Plan plan.Options
	// Namespaces that are watched; none means all.
	Namespaces []string
	// ReportDebounce is how long reports and pods are gathered before a status
	// follows them, so that thousands of pods cost one write. Zero means 5s.
	// Changes of policies, documents and Services are followed at once.
	ReportDebounce time.Duration
	// Concurrency is how many namespaces are worked on at the same time. Zero
	// means 8.
	Concurrency int
	// Metrics of the operator. Required.
	Metrics *Metrics
	// Now is the clock. Required.
	Now func() time.Time
}

const (
	defaultReportDebounce = 5 * time.Second
	defaultConcurrency    = 8
	// reconcileTimeout bounds one reconcile, so that an API server that hangs
	// does not hold a worker for ever.
	reconcileTimeout = time.Minute
	// A namespace with an error is tried again after minBackoff, then after
	// twice as long each time up to maxBackoff.
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Minute

	// eventSource is reportingController of the events.
	eventSource = "timeout-operator.dev/manager"
)

// SetUp adds the controllers to a manager whose cache has [CacheOptions] and
// whose scheme is [NewScheme].
func SetUp(ctx context.Context, mgr ctrl.Manager, options Options) error {
	r := &TimeoutPolicyReconciler{
		Client:     mgr.GetClient(),
		Live:       mgr.GetAPIReader(),
		Recorder:   mgr.GetEventRecorder(eventSource),
		Metrics:    options.Metrics,
		Options:    options.Plan,
		Namespaces: options.Namespaces,
		Now:        options.Now,
		goodNews:   newGoodNews(),
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &storedPolicy{}, indexServices, servicesOf); err != nil {
		return fmt.Errorf("index policies by service: %w", err)
	}
	return r.watch(mgr, options)
}

// watch says which events lead to which namespaces, and how soon.
func (r *TimeoutPolicyReconciler) watch(mgr ctrl.Manager, options Options) error {
	debounce := options.ReportDebounce
	if debounce <= 0 {
		debounce = defaultReportDebounce
	}
	concurrency := options.Concurrency
	if concurrency <= 0 {
		concurrency = defaultConcurrency
	}
	builder := ctrl.NewControllerManagedBy(mgr).
		Named("timeoutpolicy").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
			// A standby reads along, so that it can take over at once.
			EnableWarmup: new(true),
			// A manager may be built several times in the life of a process.
			SkipNameValidation: new(true),
			LogConstructor: func(request *reconcile.Request) logr.Logger {
				if request == nil {
					return mgr.GetLogger()
				}
				return mgr.GetLogger().WithValues("namespace", request.Namespace)
			},
		}).
		Watches(&storedPolicy{}, r.policyEvents(debounce)).
		Watches(&corev1.ConfigMap{}, r.documentEvents()).
		Watches(&corev1.Service{}, r.serviceEvents(mgr.GetCache()))
	if !options.Plan.ReportingDisabled {
		builder = builder.
			Watches(&storedReport{}, reportEvents(debounce, &r.counts, mgr.GetCache())).
			Watches(newPod(), podEvents(debounce, &r.counts, mgr.GetCache()))
	}
	return builder.Complete(r)
}
