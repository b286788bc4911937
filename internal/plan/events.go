package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// goodNews are the conditions whose becoming True is worth an event even when
// nothing was wrong before.
var goodNews = []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionAcknowledged}

// eventsOf compares the conditions of a policy with those before: an event for
// each that became False or changed its reason there, for each that recovered,
// and for the good news. Ready only repeats the others.
func eventsOf(policy string, before, after []metav1.Condition) []Event {
	var events []Event
	for _, c := range after {
		if c.Type == v1alpha1.ConditionReady {
			continue
		}
		status, reason := metav1.ConditionUnknown, ""
		if old := meta.FindStatusCondition(before, c.Type); old != nil {
			status, reason = old.Status, old.Reason
		}
		if c.Status == status && c.Reason == reason {
			continue
		}
		switch {
		case c.Status == metav1.ConditionFalse:
			events = append(events, Event{Policy: policy, Warning: true, Reason: c.Reason, Message: c.Message})
		case c.Status == metav1.ConditionTrue && (status == metav1.ConditionFalse || slices.Contains(goodNews, c.Type)):
			events = append(events, Event{Policy: policy, Reason: c.Reason, Message: c.Message})
		}
	}
	return events
}
