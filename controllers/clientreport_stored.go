package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// storedReport is a ClientReport as the API server has it. Like storedPolicy it
// always decodes: what workloads write must not be able to stop the operator.
// A report that cannot be read says nothing.
type storedReport struct {
	v1alpha1.ClientReport
}

// UnmarshalJSON never fails on the content of the report.
func (r *storedReport) UnmarshalJSON(data []byte) error {
	*r = storedReport{}
	if decode(data, &r.ClientReport) == nil {
		return nil
	}
	var meta metav1.PartialObjectMetadata
	if err := decode(data, &meta); err != nil {
		return err
	}
	r.ClientReport = v1alpha1.ClientReport{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (r *storedReport) DeepCopyObject() runtime.Object {
	out := &storedReport{}
	r.ClientReport.DeepCopyInto(&out.ClientReport)
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
