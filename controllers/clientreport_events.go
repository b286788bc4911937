package controllers

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// reportEvents follows reports after a while.
func reportEvents(later time.Duration) handler.EventHandler {
	return debounced(later, func(context.Context, client.Object) bool { return true })
}

// podEvents follows the pods that have a report, after a while: they tell which
// reports count.
func podEvents(later time.Duration, cached client.Reader) handler.EventHandler {
	return debounced(later, func(ctx context.Context, pod client.Object) bool {
		var report storedReport
		return cached.Get(ctx, client.ObjectKeyFromObject(pod), &report, client.UnsafeDisableDeepCopy) == nil
	})
}

// debounced follows the objects that concern us. Of many events within the
// time, however many there are and whatever the object, one reconcile comes.
func debounced(later time.Duration, concerns func(context.Context, client.Object) bool) handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, q queue) {
		if concerns(ctx, object) {
			addLater(q, namespaceRequest(object), later)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// addLater adds a request behind what people changed. The queue keeps one entry
// per request and the earliest of its times, so later events do not push the
// reconcile back.
func addLater(q queue, request reconcile.Request, later time.Duration) {
	low := handler.LowPriority
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{After: later, Priority: &low}, request)
		return
	}
	q.AddAfter(request, later)
}
