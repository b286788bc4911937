package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// queue is the work queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func namespaceRequest(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace()}}
}

// enqueue has a namespace looked at as soon as a worker is free.
func (r *TimeoutPolicyReconciler) enqueue(q queue, object client.Object) {
	r.backlog.add(object.GetNamespace())
	q.Add(namespaceRequest(object))
}

// policyEvents follows a policy at once when somebody changed it, with the
// periodic resync, and after a while when only its status changed and not by
// ourselves: a status that somebody else wrote is put right.
func (r *TimeoutPolicyReconciler) policyEvents(later time.Duration) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.enqueue(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.echoes.gone(policyKey(e.Object.GetNamespace(), e.Object.GetName()))
			r.enqueue(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			switch {
			case !statusOnly(e.ObjectOld, e.ObjectNew):
				r.enqueue(q, e.ObjectNew)
			case !r.echoes.isEcho(policyKey(e.ObjectNew.GetNamespace(), e.ObjectNew.GetName()), e.ObjectNew):
				addLater(q, namespaceRequest(e.ObjectNew), later)
			}
		},
	}
}

// documentEvents follows a document at once when somebody else wrote or deleted
// it, and with the periodic resync, which hands in one version twice.
func (r *TimeoutPolicyReconciler) documentEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !r.echoes.isEcho(documentKey(e.Object.GetNamespace(), e.Object.GetName()), e.Object) {
				r.enqueue(q, e.Object)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.echoes.gone(documentKey(e.Object.GetNamespace(), e.Object.GetName()))
			r.enqueue(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() ||
				!r.echoes.isEcho(documentKey(e.ObjectNew.GetNamespace(), e.ObjectNew.GetName()), e.ObjectNew) {
				r.enqueue(q, e.ObjectNew)
			}
		},
	}
}

// statusOnly reports whether two versions of an object have the same spec,
// labels, annotations and fate. A resync hands in one version twice and is not
// meant.
func statusOnly(before, after client.Object) bool {
	return before.GetResourceVersion() != after.GetResourceVersion() &&
		before.GetUID() == after.GetUID() &&
		before.GetGeneration() == after.GetGeneration() &&
		before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) &&
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// indexServices indexes policies by the Services that they name.
const indexServices = "spec.upstreams.service"

// servicesOf is the index function of indexServices.
func servicesOf(object client.Object) []string {
	policies := []v1alpha1.TimeoutPolicy{object.(*storedPolicy).TimeoutPolicy}
	var names []string
	for _, ref := range plan.ServiceRefs(policies) {
		names = append(names, ref.String())
	}
	return names
}

// serviceEvents follows a Service that comes, goes or changes its ports, for
// every namespace with a policy that names it.
func (r *TimeoutPolicyReconciler) serviceEvents(cached client.Reader) handler.EventHandler {
	enqueue := func(ctx context.Context, service client.Object, q queue) {
		var policies storedPolicyList
		key := client.ObjectKeyFromObject(service).String()
		if err := cached.List(ctx, &policies, client.MatchingFields{indexServices: key}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "cannot find the policies that name a service", "service", key)
			return
		}
		for i := range policies.Items {
			r.enqueue(q, &policies.Items[i])
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !samePorts(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

func samePorts(before, after client.Object) bool {
	return slices.EqualFunc(before.(*corev1.Service).Spec.Ports, after.(*corev1.Service).Spec.Ports,
		func(a, b corev1.ServicePort) bool { return a.Port == b.Port })
}
