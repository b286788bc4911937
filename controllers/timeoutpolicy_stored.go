package controllers

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "sigs.k8s.io/json"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// storedPolicy is a TimeoutPolicy as the API server has it, which may be one
// that no CustomResourceDefinition of today would let in: stored under an older
// or a laxer schema. One object that does not decode makes the LIST fail, and
// with it the whole kind (enix/kube-image-keeper#451,
// operator-framework/catalogd#224); so this one always decodes.
type storedPolicy struct {
	v1alpha1.TimeoutPolicy
	// fault says why the spec could not be decoded; empty when it could. The
	// policy then has its metadata and the clients that it names, as far as
	// those can be read, so that their documents are left alone.
	fault string
}

// UnmarshalJSON never fails on the content of spec and status.
func (p *storedPolicy) UnmarshalJSON(data []byte) error {
	*p = storedPolicy{}
	err := decode(data, &p.TimeoutPolicy)
	if err == nil {
		return nil
	}
	var parts struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              json.RawMessage `json:"spec"`
		Status            json.RawMessage `json:"status"`
	}
	if metaErr := decode(data, &parts); metaErr != nil {
		return metaErr
	}
	p.TimeoutPolicy = v1alpha1.TimeoutPolicy{TypeMeta: parts.TypeMeta, ObjectMeta: parts.ObjectMeta}
	// A status of a strange shape is no fault: it is written anew.
	if decode(parts.Status, &p.Status) != nil {
		p.Status = v1alpha1.TimeoutPolicyStatus{}
	}
	if len(parts.Spec) == 0 {
		return nil
	}
	if specErr := decode(parts.Spec, &p.Spec); specErr != nil {
		p.fault = fmt.Sprintf("cannot be read: %v", specErr)
		p.Spec = v1alpha1.TimeoutPolicySpec{Clients: salvageClients(parts.Spec)}
	}
	return nil
}

// salvageClients reads what it can of spec.clients.
func salvageClients(spec []byte) []v1alpha1.ClientName {
	var names struct {
		Clients []json.RawMessage `json:"clients"`
	}
	if decode(spec, &names) != nil {
		return nil
	}
	var clients []v1alpha1.ClientName
	for _, raw := range names.Clients {
		var name v1alpha1.ClientName
		if decode(raw, &name) == nil {
			clients = append(clients, name)
		}
	}
	return clients
}

// decode reads JSON as the API machinery does: letter case matters.
func decode(data []byte, into any) error {
	return utiljson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// DeepCopyObject implements runtime.Object.
func (p *storedPolicy) DeepCopyObject() runtime.Object {
	out := &storedPolicy{fault: p.fault}
	p.TimeoutPolicy.DeepCopyInto(&out.TimeoutPolicy)
	return out
}

type storedPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []storedPolicy `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *storedPolicyList) DeepCopyObject() runtime.Object {
	out := &storedPolicyList{TypeMeta: l.TypeMeta, Items: make([]storedPolicy, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*storedPolicy)
	}
	return out
}
