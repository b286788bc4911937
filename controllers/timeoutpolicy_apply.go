package controllers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// work is what differs between the documents that are and those that should be.
type work struct {
	writes    []plan.RenderedDocument
	deletions []string
}

// difference compares what is stored with the plan: content, labels and
// annotations, so that what was edited by hand is found too.
func difference(f *facts, out plan.Output) work {
	w := work{deletions: out.Deletions}
	for _, document := range out.Documents {
		if stored, ok := f.documents[document.ConfigMap]; !ok || !stored.holds(document) {
			w.writes = append(w.writes, document)
		}
	}
	return w
}

// holds reports whether a ConfigMap is what it should be. What others added to
// it is theirs.
func (d storedDocument) holds(document plan.RenderedDocument) bool {
	return d.digest == document.Digest &&
		contains(d.labels, document.Labels) &&
		contains(d.annotations, document.Annotations)
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// apply writes the documents. Each is tried, whatever became of the others.
// failed says, by ConfigMap, what went wrong in words for a status; err joins
// the same for the log and the retry.
func (r *TimeoutPolicyReconciler) apply(ctx context.Context, f *facts, out plan.Output, w work) (failed map[string]string, err error) {
	failed = map[string]string{}
	errs := inParallel(ctx, len(w.writes), func(i int) error { return r.applyDocument(ctx, f, out, w.writes[i]) })
	for i, err := range errs {
		if err != nil {
			failed[w.writes[i].ConfigMap] = err.Error()
		}
	}
	for _, name := range w.deletions {
		errs = append(errs, r.deleteDocument(ctx, f, name))
	}
	return failed, errors.Join(errs...)
}

// writers is how many writes of one namespace are under way at the same time: an
// edit of a policy for everybody is a document of every client, and an API server
// takes its time for each.
const writers = 8

// inParallel calls do for 0 to n-1, some at the same time, and returns what they
// return. A panic is an error of that call alone: the controller recovers its own
// goroutine only, and one that is left early would leave the others writing.
func inParallel(ctx context.Context, n int, do func(i int) error) []error {
	errs := make([]error, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			errs[i] = recovered(ctx, func() error { return do(i) })
		}
	}
	for range min(n, writers) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	return errs
}

// recovered makes an error of a panic; the log has its stack.
func recovered(ctx context.Context, do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
			log.FromContext(ctx).Error(err, "a write ended in a panic", "stack", string(debug.Stack()))
		}
	}()
	return do()
}

func (r *TimeoutPolicyReconciler) applyDocument(ctx context.Context, f *facts, out plan.Output, document plan.RenderedDocument) error {
	data, err := out.Render(&document)
	if err != nil {
		return fmt.Errorf("render the ConfigMap %s/%s: %w", f.namespace, document.ConfigMap, err)
	}
	configMap := corev1apply.ConfigMap(document.ConfigMap, f.namespace).
		WithLabels(document.Labels).
		WithAnnotations(document.Annotations).
		WithData(map[string]string{v1alpha1.DocumentKey: string(data)})
	key := documentKey(f.namespace, document.ConfigMap)
	r.echoes.begin(key)
	defer func() { r.echoes.end(key, ptr.Deref(configMap.ResourceVersion, "")) }()
	err = r.applyConfigMap(ctx, configMap)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		r.Metrics.applies.WithLabelValues(resultFailed).Inc()
		return fmt.Errorf("apply the ConfigMap %s/%s: %w", f.namespace, document.ConfigMap, err)
	}
	result := resultUpdated
	if _, existed := f.documents[document.ConfigMap]; !existed {
		result = resultCreated
	}
	r.Metrics.applies.WithLabelValues(result).Inc()
	drift := r.expected.drifted(f, document)
	if drift {
		r.Metrics.drift.Inc()
	}
	log.FromContext(ctx).Info("applied a document", "configMap", document.ConfigMap, "client", document.Client,
		"revision", document.Revision, "tombstone", document.Tombstone, "driftRepaired", drift)
	return nil
}

// deleteDocument removes a tombstone that nobody uses, if it is still the one
// that was planned for. One that is gone, or is something else by now, is no
// error, and was not deleted here.
func (r *TimeoutPolicyReconciler) deleteDocument(ctx context.Context, f *facts, name string) error {
	stored := f.documents[name]
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	err := r.Client.Delete(ctx, configMap, client.Preconditions{UID: &stored.uid, ResourceVersion: &stored.resourceVersion})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		r.Metrics.applies.WithLabelValues(resultFailed).Inc()
		return fmt.Errorf("delete the ConfigMap %s/%s: %w", f.namespace, name, err)
	}
	r.Metrics.applies.WithLabelValues(resultDeleted).Inc()
	log.FromContext(ctx).Info("deleted a tombstone", "configMap", name)
	return nil
}

// mayCreate reports whether the work may make an object in the namespace, or has
// to do with policies that vanished. An edit does neither, and then nobody needs
// to be asked whether the namespace is there: what is patched is. Where the
// statuses were postponed, it was asked when they were.
func mayCreate(f *facts, out plan.Output, w work, postponed bool) bool {
	if len(out.Events) > 0 && !postponed {
		return true
	}
	return len(w.deletions) > 0 || slices.ContainsFunc(w.writes, func(document plan.RenderedDocument) bool {
		stored, there := f.documents[document.ConfigMap]
		return !there || f.withdraws(stored)
	})
}

// namespaceGone reports whether the namespace is being deleted or is not there
// any more: nothing can be created in it then, and nothing needs to be
// (tigera/operator#3791).
func (r *TimeoutPolicyReconciler) namespaceGone(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the namespace %s: %w", name, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}
