package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// writeStatuses is the one place where a status is written. Each policy is
// tried, whatever became of the others; the events of a policy follow its
// status.
func (r *TimeoutPolicyReconciler) writeStatuses(ctx context.Context, f *facts, out plan.Output) error {
	var errs []error
	for i := range out.Statuses {
		status := &out.Statuses[i]
		if !status.Changed {
			continue
		}
		written, err := r.writeStatus(ctx, f.namespace, status)
		if err != nil {
			errs = append(errs, err)
		}
		if written {
			r.emit(f, status, out.Events)
		}
	}
	return errors.Join(errs...)
}

// writeStatus replaces a status as a whole. It says which object it means, but
// not which version of it: the operator is the only writer, so there is nothing
// to conflict with, and a policy that was edited meanwhile is planned again
// anyway. A policy that is gone, or was made anew, is no error.
//
// It is a JSON patch and no server-side apply: that reads the whole object by
// its schema and refuses one whose spec was stored under another schema, and
// just such an object needs a status that says so.
func (r *TimeoutPolicyReconciler) writeStatus(ctx context.Context, namespace string, status *plan.PolicyStatus) (bool, error) {
	data, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": status.UID},
		{"op": "add", "path": "/status", "value": status.Status},
	})
	if err != nil {
		return false, fmt.Errorf("encode the status of the policy %s/%s: %w", namespace, status.Name, err)
	}
	policy := &storedPolicy{}
	policy.Namespace, policy.Name = namespace, status.Name
	err = r.Client.Status().Patch(ctx, policy, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.OperatorFieldManager))
	switch {
	case apierrors.IsNotFound(err), isTestFailure(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the status of the policy %s/%s: %w", namespace, status.Name, err)
	default:
		return true, nil
	}
}

// emit sends the events of one policy.
func (r *TimeoutPolicyReconciler) emit(f *facts, status *plan.PolicyStatus, all []plan.Event) {
	for _, event := range all {
		if event.Policy != status.Name {
			continue
		}
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		policy := &storedPolicy{}
		policy.Namespace, policy.Name, policy.UID = f.namespace, status.Name, status.UID
		r.Recorder.Eventf(policy, nil, kind, event.Reason, "Reconcile", "%s", event.Message)
	}
}

// isTestFailure reports whether the UID was not the one that was meant: a JSON
// patch whose test fails is answered as Invalid without naming a cause.
func isTestFailure(err error) bool {
	if !apierrors.IsInvalid(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}
