package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// reinstallGrace is how long after the CustomResourceDefinition was created
// anew documents of the time before are kept although their policies are gone:
// whoever installs it again brings the policies in the next minutes.
const reinstallGrace = 10 * time.Minute

// kept are documents that were not written on purpose, with the reason in words
// for a status, and when to look again.
type kept struct {
	why   map[string]string
	retry time.Duration
}

// keepWithdrawn takes those documents out of the work that would lose a policy
// for a reason nobody meant: deleting the CustomResourceDefinition deletes every
// policy of the cluster, and must not take the timeouts away from every running
// client. A policy that somebody deletes is withdrawn at once.
func (r *TimeoutPolicyReconciler) keepWithdrawn(ctx context.Context, f *facts, w *work) (kept, error) {
	withdrawing := func(document plan.RenderedDocument) bool {
		return f.withdraws(f.documents[document.ConfigMap])
	}
	if !slices.ContainsFunc(w.writes, withdrawing) {
		return kept{}, nil
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := r.Live.Get(ctx, client.ObjectKey{Name: policyCRD}, crd)
	if apierrors.IsNotFound(err) {
		crd = nil
	} else if err != nil {
		return kept{}, fmt.Errorf("read the CustomResourceDefinition %s before policies are withdrawn: %w", policyCRD, err)
	}
	k := kept{why: map[string]string{}}
	w.writes = slices.DeleteFunc(slices.Clone(w.writes), func(document plan.RenderedDocument) bool {
		if !withdrawing(document) {
			return false
		}
		why, retry := keepReason(crd, f.documents[document.ConfigMap].created, f.now)
		if why == "" {
			return false
		}
		k.why[document.ConfigMap] = why
		r.Metrics.applies.WithLabelValues(resultKept).Inc()
		k.retry = retry
		return true
	})
	return k, nil
}

// withdraws reports whether a stored document came from a policy that is gone.
// One that was made anew under its name is there.
func (f *facts) withdraws(stored storedDocument) bool {
	return slices.ContainsFunc(stored.policies, func(name string) bool { return !f.names[name] })
}

// keepReason says why a document of the given age is kept, and for how long;
// an empty reason lets it be withdrawn. A nil crd is not there any more.
func keepReason(crd *metav1.PartialObjectMetadata, documentCreated, now time.Time) (string, time.Duration) {
	if crd == nil || crd.DeletionTimestamp != nil {
		return fmt.Sprintf("the document is kept: the CustomResourceDefinition %s is being deleted, and its policies with it", policyCRD), time.Minute
	}
	installed := crd.CreationTimestamp.Time
	if left := installed.Add(reinstallGrace).Sub(now); left > 0 && documentCreated.Before(installed) {
		return fmt.Sprintf("the document is kept until %s: the CustomResourceDefinition %s was installed anew, and not all of its policies are back",
			installed.Add(reinstallGrace).UTC().Format(time.RFC3339), policyCRD), left
	}
	return "", 0
}
