package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// changedStatuses are those that have to be written.
func (r *TimeoutPolicyReconciler) changedStatuses(f *facts, out plan.Output) []*plan.PolicyStatus {
	var changed []*plan.PolicyStatus
	for i := range out.Statuses {
		if status := &out.Statuses[i]; status.Changed && !r.refusals.has(status, f.now) {
			changed = append(changed, status)
		}
	}
	return changed
}

// writeStatuses is the one place where a status is written. Each policy is
// tried, whatever became of the others; the events of a policy follow its
// status.
func (r *TimeoutPolicyReconciler) writeStatuses(ctx context.Context, f *facts, out plan.Output, changed []*plan.PolicyStatus) error {
	r.written.add(f.namespace, work{}, changed)
	written := make([]bool, len(changed))
	errs := inParallel(ctx, len(changed), func(i int) (err error) {
		written[i], err = r.writeStatus(ctx, f.namespace, changed[i])
		return err
	})
	for i, status := range changed {
		switch {
		case isRefusal(errs[i]):
			r.refused(ctx, f, status, errs[i])
			errs[i] = nil
		case written[i]:
			r.emit(f, status, out.Events)
		}
	}
	return errors.Join(errs...)
}

// refused is for a policy that was stored under another schema and that the API
// server cannot judge under the present one: it then refuses its status as well
// (kubernetes/kubernetes#129503). An event is the only way left to say what is
// wrong. To try again changes nothing until somebody edits the policy, or the
// schema.
func (r *TimeoutPolicyReconciler) refused(ctx context.Context, f *facts, status *plan.PolicyStatus, err error) {
	r.refusals.add(status, f.now)
	log.FromContext(ctx).Info("the API server refuses the status of a malformed policy; its event says what is wrong with it",
		"policy", status.Name, "err", err)
	accepted := meta.FindStatusCondition(status.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted != nil && accepted.Status == metav1.ConditionFalse {
		r.emit(f, status, []plan.Event{{Policy: status.Name, Warning: true, Reason: accepted.Reason, Message: accepted.Message}})
	}
}

// refusalHolds is how long a status that was refused is not tried again for the
// same generation of its policy: nobody tells when the schema is mended.
const refusalHolds = time.Hour

// refusals remember for which generation of which policy a status was refused.
// The zero value is ready. Safe for concurrent use.
type refusals struct {
	mu       sync.Mutex
	policies map[types.UID]refusal
	// sweepAt is the number of entries at which those that are over are taken
	// out: policies go, and nobody asks for them again.
	sweepAt int
}

type refusal struct {
	generation int64
	until      time.Time
}

func (m *refusals) add(s *plan.PolicyStatus, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policies == nil {
		m.policies = map[types.UID]refusal{}
	}
	if len(m.policies) >= m.sweepAt {
		maps.DeleteFunc(m.policies, func(_ types.UID, old refusal) bool { return !now.Before(old.until) })
		m.sweepAt = 2*len(m.policies) + 64
	}
	m.policies[s.UID] = refusal{s.Status.ObservedGeneration, now.Add(refusalHolds)}
}

// has forgets an earlier generation, so that a policy is remembered once.
func (m *refusals) has(s *plan.PolicyStatus, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.policies[s.UID]
	if known && (old.generation != s.Status.ObservedGeneration || !now.Before(old.until)) {
		delete(m.policies, s.UID)
		return false
	}
	return known
}

// isRefusal reports whether the API server found fault with the object itself.
func isRefusal(err error) bool { return apierrors.IsInvalid(err) && !isTestFailure(err) }

// writeStatus replaces a status as a whole. It says which object it means, but
// not which version of it: the operator is the only writer, so there is nothing
// to conflict with, and a policy that was edited meanwhile is planned again
// anyway. A policy that is gone, or was made anew, is no error.
//
// It is a JSON patch and no server-side apply: that reads the whole object by
// its schema and refuses more of those that were stored under another one, and
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
	key := policyKey(namespace, status.Name)
	r.echoes.begin(key)
	defer func() { r.echoes.end(key, policy.ResourceVersion) }()
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

// emit sends the events of one policy. They name the version of the policy that
// they are about: events that differ only in their words are one series, and
// show the words of its first. Good news is bounded: when ten thousand policies
// are rendered for the first time, ten thousand events would cost the API server
// as much as their statuses, and nobody reads them.
func (r *TimeoutPolicyReconciler) emit(f *facts, status *plan.PolicyStatus, all []plan.Event) {
	for _, event := range all {
		if event.Policy != status.Name {
			continue
		}
		kind := corev1.EventTypeWarning
		if !event.Warning {
			kind = corev1.EventTypeNormal
			if !r.goodNews.TryAccept() {
				continue
			}
		}
		policy := &storedPolicy{}
		policy.Namespace, policy.Name, policy.UID = f.namespace, status.Name, status.UID
		policy.ResourceVersion = f.versionOf(status.UID)
		r.Recorder.Eventf(policy, nil, kind, event.Reason, "Reconcile", "%s", event.Message)
	}
}

// versionOf returns the version at which a policy was gathered; empty when it
// was not.
func (f *facts) versionOf(uid types.UID) string {
	for i := range f.policies {
		if f.policies[i].UID == uid {
			return f.policies[i].ResourceVersion
		}
	}
	return ""
}

// Normal events are dropped beyond this rate. The conditions say the same.
const (
	goodNewsPerSecond = 10
	goodNewsBurst     = 200
)

func newGoodNews() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiter(goodNewsPerSecond, goodNewsBurst)
}

// isTestFailure reports whether the UID was not the one that was meant: a JSON
// patch whose test fails is answered as Invalid without naming a cause.
func isTestFailure(err error) bool {
	causes, told := invalidFields(err)
	return told && len(causes) == 0
}

// invalidFields returns what the API server found fault with in an object that it
// refused as invalid; false for any other error.
func invalidFields(err error) (causes []metav1.StatusCause, told bool) {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return nil, false
	}
	if details := status.Status().Details; details != nil {
		causes = details.Causes
	}
	return causes, true
}
