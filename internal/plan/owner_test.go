package plan_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// A pod that takes over the report of an earlier one of its name has its own
// time to follow.
func TestAPodHasItsOwnTimeWhoseverReportItTakesOver(t *testing.T) {
	early, late := now.Add(-time.Hour), now
	for _, c := range []struct{ report, pod, want time.Time }{{early, late, late}, {late, early, late}, {early, early, early}} {
		if got := plan.FirstSaid(c.report, c.pod); !got.Equal(c.want) {
			t.Errorf("report of %s, pod of %s: %s, want %s", c.report, c.pod, got, c.want)
		}
	}
}

func TestReportBelongsToThePodOfItsName(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	for _, c := range []struct {
		name   string
		owners []metav1.OwnerReference
		want   types.UID
	}{
		{"its pod", []metav1.OwnerReference{owner}, "u"},
		{"nobody", nil, ""},
		{"two", []metav1.OwnerReference{owner, owner}, ""},
		{"another pod", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "q", UID: "u"}}, ""},
		{"another group", []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Pod", Name: "p", UID: "u"}}, ""},
		{"another kind", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "p", UID: "u"}}, ""},
	} {
		report := &v1alpha1.ClientReport{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: c.owners}}
		if got := plan.OwningPod(report); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
		report.DeletionTimestamp = &metav1.Time{}
		if got := plan.OwningPod(report); got != "" {
			t.Errorf("%s, being deleted: %q", c.name, got)
		}
	}
}
