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

// reportEvents enters reports into the ledger and has their namespaces looked at
// after a while: of many events within that time one reconcile comes.
func reportEvents(later time.Duration, counts *ledger, cached client.Reader) handler.EventHandler {
	changed := func(ctx context.Context, object client.Object, q queue) {
		counts.reported(ctx, cached, object.(*storedReport))
		addLater(q, namespaceRequest(object), later)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { changed(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { changed(ctx, e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			counts.gone(e.Object.(*storedReport))
			addLater(q, namespaceRequest(e.Object), later)
		},
	}
}

// podEvents follows the pods that have a report, after a while, when they come
// to count or do not any more.
func podEvents(later time.Duration, counts *ledger, cached client.Reader) handler.EventHandler {
	changed := func(ctx context.Context, object client.Object, q queue) {
		if counts.podChanged(ctx, cached, client.ObjectKeyFromObject(object)) {
			addLater(q, namespaceRequest(object), later)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { changed(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { changed(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { changed(ctx, e.Object, q) },
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
