package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// maxReport bounds what is heard of one report, in bytes: that of four containers
// at their bound. The schema alone would let a namespace with many pods fill the
// operator's memory.
const maxReport = 4 * 4096

// storedReport is a ClientReport as the API server has it, with its clients as
// statements, which pods that say the same share. Like storedPolicy it always
// decodes: what workloads write must not be able to stop the operator. A report
// that cannot be read says nothing.
type storedReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	statements []plan.Statement
	// state of its worst client, as in timeouts_operator_reports.
	state string
}

// UnmarshalJSON never fails on the content of the report.
func (r *storedReport) UnmarshalJSON(data []byte) error {
	var report v1alpha1.ClientReport
	if decode(data, &report) != nil {
		var meta metav1.PartialObjectMetadata
		if err := decode(data, &meta); err != nil {
			return err
		}
		report = v1alpha1.ClientReport{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta}
	}
	*r = storedReport{TypeMeta: report.TypeMeta, ObjectMeta: report.ObjectMeta, state: reportState(report.Clients)}
	room := maxReport
	for i := range report.Clients {
		statement := plan.NewStatement(&report.Clients[i])
		if room -= statement.Size(); room >= 0 {
			r.statements = append(r.statements, statement)
		}
	}
	return nil
}

// stripReport keeps what ties a report to its pod, and what it says.
func stripReport(report *storedReport) {
	report.ObjectMeta = metav1.ObjectMeta{
		Namespace:         report.Namespace,
		Name:              report.Name,
		UID:               report.UID,
		ResourceVersion:   report.ResourceVersion,
		CreationTimestamp: report.CreationTimestamp,
		DeletionTimestamp: report.DeletionTimestamp,
		OwnerReferences:   report.OwnerReferences,
	}
}

// reportState is the state of the worst client.
func reportState(clients []v1alpha1.ReportedClient) string {
	worst := stateReady
	for i := range clients {
		switch clients[i].State {
		case v1alpha1.StateFallback:
			return stateFallback
		case v1alpha1.StateStale:
			worst = stateStale
		}
	}
	return worst
}

// DeepCopyObject implements runtime.Object. Statements never change.
func (r *storedReport) DeepCopyObject() runtime.Object {
	out := &storedReport{TypeMeta: r.TypeMeta, statements: r.statements, state: r.state}
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

type storedReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []storedReport `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *storedReportList) DeepCopyObject() runtime.Object {
	out := &storedReportList{TypeMeta: l.TypeMeta, Items: make([]storedReport, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*storedReport)
	}
	return out
}
