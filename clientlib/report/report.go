// Package report tells the cluster what this pod applied and what it is able to
// enforce: one ClientReport object per pod, written by the pod itself.
//
// It is a plain HTTP request with the pod's own token, so that a workload links
// nothing of Kubernetes. Reporting never disturbs the workload: no call waits
// for it, and its failures are remembered and logged once per change, not
// returned.
package report

import (
	"slices"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

// The coordinates of the API.
const (
	// APIVersion of the ClientReport.
	APIVersion = "timeout-operator.dev/v1alpha1"
	// Kind of the object.
	Kind = "ClientReport"
	// FieldManager that owns what a pod writes; with a slash and the name of the
	// container, where that is known.
	FieldManager = "timeout-clientlib"
)

// Bounds of a report. What is beyond them is left out, the worst entries last,
// so that what needs attention stays.
const (
	// MaxBytes of the object as it is sent.
	MaxBytes = 4096
	// MaxMessageLength of every message, in bytes.
	MaxMessageLength = 256
	// MaxClients in a pod.
	MaxClients = 16
	// MaxPolicies of a client.
	MaxPolicies = 64
	// MaxAdapters of a client.
	MaxAdapters = 8
	// MaxUpstreams of a client; only those with a gap are listed.
	MaxUpstreams = 64
)

// Version of the library that a report names unless Options say otherwise.
const Version = "v0.1.0"

// Library names the client library.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// State says what a client lives on.
type State string

// The states.
const (
	// StateReady: the newest document of the source is in force.
	StateReady State = "Ready"
	// StateStale: an older document is in force, since the source is gone or
	// its document unusable.
	StateStale State = "Stale"
	// StateFallback: there never was a document.
	StateFallback State = "Fallback"
)

// Client is what one named client of the pod has to say. Slices that were
// handed to a Reporter belong to it.
type Client struct {
	// Name of the client, such as "checkout"; unique in a report.
	Name string `json:"name"`
	// Delivery is Mount, Poll, Watch or Static.
	Delivery string `json:"delivery"`
	State    State  `json:"state"`
	// Reason in CamelCase; empty in state Ready without a warning.
	Reason string `json:"reason,omitempty"`
	// Message explains Reason.
	Message string `json:"message,omitempty"`
	// Revision of the document in force; empty in state Fallback.
	Revision  string     `json:"revision,omitempty"`
	Policies  []Policy   `json:"policies,omitempty"`
	Adapters  []Adapter  `json:"adapters,omitempty"`
	Upstreams []Upstream `json:"upstreams,omitempty"`
}

// PolicyState says what a client did with a policy.
type PolicyState string

// The states of a policy.
const (
	// PolicyApplied: this generation is in force.
	PolicyApplied PolicyState = "Applied"
	// PolicyRejected: this generation arrived and was refused, see Reason.
	PolicyRejected PolicyState = "Rejected"
	// PolicyStale: this generation is in force, and the client knows that it
	// is not the newest or cannot tell.
	PolicyStale PolicyState = "Stale"
)

// Policy is the acknowledgement of one TimeoutPolicy.
type Policy struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation"`
	// Revision of the document that carried the policy. Absent means the
	// client's.
	Revision string      `json:"revision,omitempty"`
	State    PolicyState `json:"state"`
	Reason   string      `json:"reason,omitempty"`
	Message  string      `json:"message,omitempty"`
}

// Adapter is an adapter that the client uses. A capability that is not listed
// is unknown, not Absent.
type Adapter struct {
	Name         string            `json:"name"`
	Capabilities map[string]string `json:"capabilities,omitempty"`
	Emits        []string          `json:"emits,omitempty"`
}

// Upstream is an upstream whose rules an adapter cannot fully honour.
type Upstream struct {
	Name        string        `json:"name"`
	Adapter     string        `json:"adapter"`
	Unsupported []Unsupported `json:"unsupported,omitempty"`
	DeadKinds   []string      `json:"deadKinds,omitempty"`
}

// Unsupported is a policy field that nothing enforces.
type Unsupported struct {
	Field      string `json:"field"`
	Capability string `json:"capability"`
}

// NewAdapter turns the record of an adapter into its part of a report. Every
// capability is listed, those that the record lacks as Absent.
func NewAdapter(r capability.Record) Adapter {
	a := Adapter{Name: r.Adapter, Capabilities: map[string]string{}}
	for _, name := range capability.Names() {
		a.Capabilities[string(name)] = r.Level(name).String()
	}
	for _, kind := range r.Emits.Kinds() {
		a.Emits = append(a.Emits, kind.String())
	}
	return a
}

// NewUpstreams picks the upstreams with a gap from an assessment.
func NewUpstreams(a capability.Assessment) []Upstream {
	var list []Upstream
	for _, u := range a.Upstreams {
		if len(u.Dropped) == 0 && len(u.DeadKinds) == 0 {
			continue
		}
		out := Upstream{Name: u.Upstream, Adapter: u.Adapter, DeadKinds: slices.Clone(u.DeadKinds)}
		for _, d := range u.Dropped {
			out.Unsupported = append(out.Unsupported, Unsupported{Field: d.Field, Capability: string(d.Capability)})
		}
		list = append(list, out)
	}
	return list
}
