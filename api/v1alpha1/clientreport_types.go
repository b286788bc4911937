package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClientReport is what one pod tells about its clients: which policies they
// have in force and what they can enforce. It has the name of the pod, is owned
// by it and goes with it; the pod writes it with its own token, and only when
// the content changes. Admission sees to it that a pod speaks for itself alone.
//
// Its strings come from workloads: whoever reads them treats them as untrusted.
// The schema bounds them and does not judge them, so that a newer library, or
// one in another language, can be heard.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clients) || self.clients.map(c, (has(c.policies) ? size(c.policies) : 0) + (has(c.upstreams) ? size(c.upstreams) : 0)).sum() <= 256",message="a report has at most 256 policies and upstreams together: leave out the ones without a gap"
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,categories=resilience
// +kubebuilder:printcolumn:name="Clients",type=string,JSONPath=`.clients[*].name`
// +kubebuilder:printcolumn:name="Delivery",type=string,JSONPath=`.clients[*].delivery`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.clients[*].state`
// +kubebuilder:printcolumn:name="Library",type=string,priority=1,JSONPath=`.library.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClientReport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// Library that writes the report.
	// +required
	Library ReportedLibrary `json:"library"`
	// Clients of the process, by name, at most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Clients []ReportedClient `json:"clients,omitempty"`
}

// ClientReportList is a list of reports.
//
// +kubebuilder:object:root=true
type ClientReportList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []ClientReport `json:"items"`
}

// ReportedLibrary names the library that writes the report.
type ReportedLibrary struct {
	// Name, such as clientlib.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// Version, such as v0.1.0.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// Delivery says how documents reach a client.
//
// +kubebuilder:validation:Enum=Mount;Poll;Watch;Static
type Delivery string

// The deliveries.
const (
	// DeliveryMount: a mounted ConfigMap, watched.
	DeliveryMount Delivery = "Mount"
	// DeliveryPoll: a mounted ConfigMap, looked at every few seconds, because it
	// cannot be watched.
	DeliveryPoll Delivery = "Poll"
	// DeliveryWatch: watched at the API server.
	DeliveryWatch Delivery = "Watch"
	// DeliveryStatic: a file or document that never changes; such a client
	// cannot be updated.
	DeliveryStatic Delivery = "Static"
)

// ClientState says which document a client has in force.
//
// +kubebuilder:validation:Enum=Ready;Stale;Fallback
type ClientState string

// The states.
const (
	// StateReady: the newest document that was seen.
	StateReady ClientState = "Ready"
	// StateStale: the last good one, since the newest is invalid or the source is
	// gone.
	StateStale ClientState = "Stale"
	// StateFallback: none was ever loaded, the built-in default is in force.
	StateFallback ClientState = "Fallback"
)

// PolicyState says what a client did with one policy.
//
// +kubebuilder:validation:Enum=Applied;Rejected;Stale
type PolicyState string

// The states of a policy at a client.
const (
	// PolicyApplied: it is in force at that generation.
	PolicyApplied PolicyState = "Applied"
	// PolicyRejected: the document that holds it was refused.
	PolicyRejected PolicyState = "Rejected"
	// PolicyStale: an older document is in force.
	PolicyStale PolicyState = "Stale"
)

// CapabilityLevel says how well an adapter supports a capability.
//
// +kubebuilder:validation:Enum=Native;Emulated;Degraded;Absent
type CapabilityLevel string

// The levels.
const (
	// LevelNative: the library does it.
	LevelNative CapabilityLevel = "Native"
	// LevelEmulated: the engine adds it.
	LevelEmulated CapabilityLevel = "Emulated"
	// LevelDegraded: a weaker form.
	LevelDegraded CapabilityLevel = "Degraded"
	// LevelAbsent: it cannot be done.
	LevelAbsent CapabilityLevel = "Absent"
)

// ReportedWord is a failure kind or a capability. The list is not closed here:
// a newer library may know words that this API does not.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
type ReportedWord string

// ReportedClient is the state of one client of the process.
type ReportedClient struct {
	// Name of the client, as the workload gave it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Delivery: Mount (a mounted ConfigMap, watched), Poll (mounted, looked at
	// every few seconds), Watch (at the API server), Static (never changes).
	// +required
	Delivery Delivery `json:"delivery"`
	// State: Ready (the newest document is in force), Stale (the last good one),
	// Fallback (the built-in default).
	// +required
	State ClientState `json:"state"`
	// Reason for a state other than Ready, one CamelCase word, such as
	// InvalidUpdate or SourceGone.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// Message for people, at most 256 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
	// Revision of the document in force; absent in Fallback.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// Policies that the newest document seen was made from, at most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Policies []ReportedPolicy `json:"policies,omitempty"`
	// Adapters that this client uses, at most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Adapters []ReportedAdapter `json:"adapters,omitempty"`
	// Upstreams with rules that an adapter cannot honour, at most 64. One without
	// a gap is not listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Upstreams []ReportedUpstream `json:"upstreams,omitempty"`
}

// ReportedPolicy is one policy as a client has it.
type ReportedPolicy struct {
	// Namespace of the policy.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the policy, so that one made anew under the same name is told apart.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// Generation of the policy.
	// +required
	Generation int64 `json:"generation"`
	// Revision of the document that it came in.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// State: Applied (in force), Rejected (the document was refused), Stale (an
	// older document is in force).
	// +required
	State PolicyState `json:"state"`
	// Reason for a state other than Applied, one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// Message for people, at most 256 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ReportedAdapter is what one adapter can do.
type ReportedAdapter struct {
	// Name of the adapter, such as nethttp.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Capabilities by name: Native, Emulated, Degraded or Absent, at most 64. One
	// that is missing is unknown: an older library does not know it, or the
	// report left it out for want of room.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 64)",message="the name of a capability has at most 64 characters: shorten it"
	Capabilities map[ReportedWord]CapabilityLevel `json:"capabilities,omitempty"`
	// Emits lists the failure kinds that the adapter can tell apart, at most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Emits []ReportedWord `json:"emits,omitempty"`
}

// ReportedUpstream is an upstream with rules that an adapter cannot honour.
type ReportedUpstream struct {
	// Name of the upstream.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Adapter that has the gap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Adapter string `json:"adapter"`
	// Unsupported fields, at most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Unsupported []ReportedGap `json:"unsupported,omitempty"`
	// DeadKinds are retryable kinds that the adapter never emits, at most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	DeadKinds []ReportedWord `json:"deadKinds,omitempty"`
}

// ReportedGap is a field that an adapter cannot honour.
type ReportedGap struct {
	// Field inside the rules, such as timeouts.connect.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field"`
	// Capability that is missing, such as TimeoutConnect.
	// +required
	Capability ReportedWord `json:"capability"`
}
