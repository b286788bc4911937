package controllers

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// ownWrites remember, by namespace, what the last reconcile wrote, so that the
// next one waits until the cache has it: from a cache that lags it would write
// the same again. To list with the client's own consistency would wait for the
// writes under way in all other namespaces too, which holds every worker to the
// pace of the slowest. The zero value is ready. Safe for concurrent use, as long
// as a namespace is reconciled by one at a time.
type ownWrites struct {
	mu         sync.Mutex
	namespaces map[string][]client.Object
}

// add notes what is about to be written.
func (o *ownWrites) add(namespace string, w work, statuses []*plan.PolicyStatus) {
	var objects []client.Object
	configMap := func(name string) {
		object := &corev1.ConfigMap{}
		object.Namespace, object.Name = namespace, name
		objects = append(objects, object)
	}
	for _, document := range w.writes {
		configMap(document.ConfigMap)
	}
	for _, name := range w.deletions {
		configMap(name)
	}
	for _, status := range statuses {
		policy := &storedPolicy{}
		policy.Namespace, policy.Name = namespace, status.Name
		objects = append(objects, policy)
	}
	if len(objects) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.namespaces == nil {
		o.namespaces = map[string][]client.Object{}
	}
	o.namespaces[namespace] = append(o.namespaces[namespace], objects...)
}

func (o *ownWrites) of(namespace string) []client.Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.namespaces[namespace]
}

func (o *ownWrites) forget(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.namespaces, namespace)
}

// catchUp waits until the cache has what was written to the namespace: a read of
// one object waits for the writes to that object. It does so once: what does not
// come in time is not waited for again, since to write it twice does no harm.
func (r *TimeoutPolicyReconciler) catchUp(ctx context.Context, namespace string) error {
	defer r.written.forget(namespace)
	for _, object := range r.written.of(namespace) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), object, client.UnsafeDisableDeepCopy)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("wait for the cache to have %T %s/%s: %w", object, namespace, object.GetName(), err)
		}
	}
	return nil
}
