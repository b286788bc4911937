package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaxStatusItems bounds each list of a status: a status that grew with pods
// would make the object unwritable.
const MaxStatusItems = 64

// TimeoutPolicyStatus is what the operator and the clients made of a policy.
//
// Its lists are bounded at 64 entries, sorted, the worst first, and written as
// a whole by the operator alone, hence atomic; truncated tells that there was
// more. All counts are of pods that report, unless said otherwise.
type TimeoutPolicyStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs, Programmed, Acknowledged, Capable and
	// Ready. Each is positive: True is good.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// Summary is the status in a few words, for lists.
	// +optional
	Summary StatusSummary `json:"summary,omitempty,omitzero"`

	// Clients that have a document with this policy in it, the ones with most
	// pods still missing first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Clients []ClientStatus `json:"clients,omitempty"`

	// Capabilities that the policy takes, and how the adapters of its clients
	// support them, the most often absent first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Capabilities []CapabilityStatus `json:"capabilities,omitempty"`

	// Unsupported lists the fields that some client cannot honour.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Unsupported []UnsupportedField `json:"unsupported,omitempty"`

	// DeadRetryableKinds lists the retryable kinds that some client never
	// reports, so that asking for them does nothing there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DeadRetryableKinds []DeadRetryableKind `json:"deadRetryableKinds,omitempty"`

	// Overridden lists the fields of this policy that another policy of higher
	// precedence sets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Overridden []OverriddenField `json:"overridden,omitempty"`

	// Truncated says that one of the lists had more entries than it can hold.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// StatusSummary is the status in a few words. Its fields are text for people
// and the source of the columns of kubectl get; programs read the conditions
// and the lists.
type StatusSummary struct {
	// Upstreams: the first one's name and how many more there are, "orders +1".
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Upstreams string `json:"upstreams,omitempty"`
	// Acknowledged: pods that applied this generation, of those that report,
	// "11/12".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Acknowledged string `json:"acknowledged,omitempty"`
	// Capable: pods that can enforce all of this policy, of those that report,
	// "10/12".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Capable string `json:"capable,omitempty"`
	// Total is timeouts.total in force for the first upstream and the first
	// client, after the merge; empty where there is no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Total string `json:"total,omitempty"`
	// Attempt is timeouts.attempt in force for the first upstream and the first
	// client, after the merge; empty where there is no limit.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Attempt string `json:"attempt,omitempty"`
	// Tries is retry.maxAttempts in force for the first upstream and the first
	// client, after the merge, the first attempt included.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Tries string `json:"tries,omitempty"`
	// Revision is the start of the revision of the first client's document, 12
	// hexadecimal digits, as of the last change of this status.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Revision string `json:"revision,omitempty"`
}

// ClientStatus is what the pods of one client made of the policy.
type ClientStatus struct {
	// Name of the client; empty for every client that no policy names.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// ConfigMap that holds the client's document.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`
	// Revision of that document when something of this status changed last. The
	// document has a new one with each change of any of its policies; the
	// annotation timeout-operator.dev/revision of the ConfigMap has it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// Reporting is the number of pods that report this client.
	// +required
	Reporting int32 `json:"reporting"`
	// Applied is the number of pods that have this generation in force.
	// +required
	Applied int32 `json:"applied"`
	// Rejected is the number of pods that refused it and kept their last good
	// document. They count as not acknowledged.
	// +required
	Rejected int32 `json:"rejected"`
	// Stale is the number of pods that said nothing about this generation for
	// longer than the stated time, or cannot be updated. They block nobody.
	// +required
	Stale int32 `json:"stale"`
}

// CapabilityStatus counts pods by how well they support one capability.
type CapabilityStatus struct {
	// Name of the capability, such as DeadlineCoversBody.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// Native: the client library does it.
	// +required
	Native int32 `json:"native"`
	// Emulated: the engine adds it.
	// +required
	Emulated int32 `json:"emulated"`
	// Degraded: a weaker form of it.
	// +required
	Degraded int32 `json:"degraded"`
	// Absent: the pod cannot do it.
	// +required
	Absent int32 `json:"absent"`
}

// UnsupportedField is a field that some client cannot honour.
type UnsupportedField struct {
	// Upstream by name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Upstream string `json:"upstream"`
	// Field inside the rules, such as timeouts.connect.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field"`
	// Capability that is missing, such as TimeoutConnect.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Capability string `json:"capability"`
	// Clients is the number of pods that cannot honour it.
	// +required
	Clients int32 `json:"clients"`
	// Example is one of them and the adapter, "pod/adapter".
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Example string `json:"example,omitempty"`
}

// DeadRetryableKind is a retryable kind that some client never reports.
type DeadRetryableKind struct {
	// Upstream by name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Upstream string `json:"upstream"`
	// Kind of failure, such as WriteTimeout.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Kind string `json:"kind"`
	// Clients is the number of pods that never report it.
	// +required
	Clients int32 `json:"clients"`
	// Example is one of them and the adapter, "pod/adapter".
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Example string `json:"example,omitempty"`
}

// OverriddenField is a field of this policy that another one sets.
type OverriddenField struct {
	// Upstream by name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Upstream string `json:"upstream"`
	// Path of the field, such as timeouts.total, or routes[refunds].timeouts.total.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
	// By is the policy whose value is in force, "namespace/name".
	// +required
	// +kubebuilder:validation:MaxLength=320
	By string `json:"by"`
}
