package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwningPod returns the UID of the pod that a report names as its owner; empty
// unless there is exactly one owner and it is the pod of the report's name, and
// when the report is being deleted. The report counts while that very pod lives.
func OwningPod(report metav1.Object) types.UID {
	owners := report.GetOwnerReferences()
	if len(owners) != 1 || report.GetDeletionTimestamp() != nil {
		return ""
	}
	owner := owners[0]
	if owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.Name != report.GetName() {
		return ""
	}
	return owner.UID
}

// FirstSaid is when a pod can have said something first: when its report was
// made, or when it was made itself, where it took over the report of an earlier
// pod of its name.
func FirstSaid(reportCreated, podCreated time.Time) time.Time {
	if podCreated.After(reportCreated) {
		return podCreated
	}
	return reportCreated
}
