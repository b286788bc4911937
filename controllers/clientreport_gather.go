package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// gatherReports joins the reports of a namespace to their pods. A report counts
// when the pod that it is named after lives and has the UID that the report is
// owned by: what is left behind by a pod that is gone, or by an earlier one of
// the same name, says nothing.
func (r *TimeoutPolicyReconciler) gatherReports(ctx context.Context, f *facts) error {
	if r.Options.ReportingDisabled {
		return nil
	}
	var reports storedReportList
	if err := r.Client.List(ctx, &reports, client.InNamespace(f.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the reports of namespace %s: %w", f.namespace, err)
	}
	for i := range reports.Items {
		report := &reports.Items[i].ClientReport
		live, err := r.podLives(ctx, report)
		if err != nil {
			return err
		}
		if !live {
			f.orphans++
			continue
		}
		f.reports = append(f.reports, *report)
	}
	return nil
}

func (r *TimeoutPolicyReconciler) podLives(ctx context.Context, report *v1alpha1.ClientReport) (bool, error) {
	owner := owningPod(report)
	if owner == "" || report.DeletionTimestamp != nil {
		return false, nil
	}
	pod := newPod()
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(report), pod, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the pod %s/%s: %w", report.Namespace, report.Name, err)
	}
	return pod.UID == owner && pod.DeletionTimestamp == nil, nil
}

// owningPod returns the UID of the pod that a report names as its owner; empty
// unless there is exactly one owner and it is the pod of the report's name.
func owningPod(report *v1alpha1.ClientReport) types.UID {
	if len(report.OwnerReferences) != 1 {
		return ""
	}
	owner := report.OwnerReferences[0]
	if owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.Name != report.Name {
		return ""
	}
	return owner.UID
}
