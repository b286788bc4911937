package controllers

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// TimeoutPolicyReconciler keeps the documents of a namespace and the status of
// its policies as package plan says they should be. Its fields are set before
// the first reconcile and not changed afterwards; reconciles of different
// namespaces may run at the same time.
type TimeoutPolicyReconciler struct {
	// Client reads from the cache of [CacheOptions] and writes.
	Client client.Client
	// Live reads single objects from the API server itself, before a write.
	Live client.Reader
	// Recorder emits events.
	Recorder events.EventRecorder
	// Metrics of the operator.
	Metrics *Metrics
	// Options of the planner.
	Options plan.Options
	// Namespaces that are watched; none means all.
	Namespaces []string
	// Now is the clock.
	Now func() time.Time

	// goodNews bounds Normal events. Required.
	goodNews flowcontrol.PassiveRateLimiter

	expected expectations
	memos    memos
	refusals refusals
	written  ownWrites
	echoes   echoes
	backlog  backlog
	counts   ledger
}

// Reconcile brings one namespace up to date. The request has no name. What the
// end of the process cut short is no error.
func (r *TimeoutPolicyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.backlog.begin(req.Namespace)
	defer r.backlog.end(req.Namespace)
	result, err := r.reconcile(ctx, req.Namespace)
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctrl.Result{}, nil
	}
	if r.echoes.takeMissed(req.Namespace) && err == nil {
		return ctrl.Result{RequeueAfter: missedRetry}, nil
	}
	return result, err
}

func (r *TimeoutPolicyReconciler) reconcile(ctx context.Context, namespace string) (ctrl.Result, error) {
	facts, err := r.gather(ctx, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	out, err := r.plan(ctx, facts)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo := difference(facts, out)
	if mayCreate(facts, out, todo, r.backlog.isPostponed(namespace)) {
		if gone, err := r.namespaceGone(ctx, namespace); gone || err != nil {
			r.backlog.settle(namespace)
			return ctrl.Result{}, err
		}
	}
	kept, err := r.keepWithdrawn(ctx, facts, &todo)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.written.add(namespace, todo, nil)
	failed, applyErr := r.apply(ctx, facts, out, todo)
	if len(failed) > 0 {
		out = out.WithFailures(failed)
	}
	if len(kept.why) > 0 {
		out = out.WithPending(kept.why)
	}
	r.expected.set(facts, out, failed, kept.why)
	changed := r.changedStatuses(facts, out)
	if len(changed) > 0 && applyErr == nil && r.backlog.postpone(namespace, facts.now) {
		return ctrl.Result{RequeueAfter: postponedRetry, Priority: new(handler.LowPriority)}, nil
	}
	r.backlog.settle(namespace)
	statusErr := r.writeStatuses(ctx, facts, out, changed)
	r.Metrics.observe(facts, out)
	return ctrl.Result{RequeueAfter: requeueAfter(facts, out, kept)}, errors.Join(applyErr, statusErr)
}

// missedRetry is how soon to look again when somebody else wrote during a
// reconcile: at once.
const missedRetry = time.Millisecond

// foreignRetry is how soon to look again at a ConfigMap that is somebody
// else's: such a one is not watched.
const foreignRetry = time.Minute

// requeueAfter is when to look again though nothing happens; 0 means never.
func requeueAfter(f *facts, out plan.Output, k kept) time.Duration {
	soonest := out.RequeueAfter
	for _, after := range []time.Duration{k.retry, f.retryForeign()} {
		if after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	return soonest
}
