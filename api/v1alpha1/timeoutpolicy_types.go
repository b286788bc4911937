package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TimeoutPolicy says, for the clients of its namespace, how long calls to
// upstream services may take, when they are repeated, how what is left of a
// deadline travels on, and when a failing upstream is left alone.
//
// Several policies for one client are merged field by field. In ascending
// order of precedence: the library default (no limit, no retry), policies
// without clients, policies that name the client; and inside one policy
// defaults, the upstream, the route. A list that is set replaces the inherited
// one as a whole. Attaching a policy never changes a field it does not set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=tmo,categories=resilience
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="What clients do with this policy. Empty: it does not say, so Enforce unless another policy says otherwise."
// +kubebuilder:printcolumn:name="Upstreams",type=string,JSONPath=`.status.summary.upstreams`,description="The first upstream and how many more there are."
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the policy is valid and without conflict."
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether the documents of its clients hold this generation."
// +kubebuilder:printcolumn:name="Acked",type=string,JSONPath=`.status.summary.acknowledged`,description="How many of the reporting pods have applied this generation."
// +kubebuilder:printcolumn:name="Capable",type=string,JSONPath=`.status.summary.capable`,description="How many of the reporting pods can enforce all of it."
// +kubebuilder:printcolumn:name="Total",type=string,priority=1,JSONPath=`.status.summary.total`,description="timeouts.total in force for the first upstream."
// +kubebuilder:printcolumn:name="Attempt",type=string,priority=1,JSONPath=`.status.summary.attempt`,description="timeouts.attempt in force for the first upstream."
// +kubebuilder:printcolumn:name="Tries",type=string,priority=1,JSONPath=`.status.summary.tries`,description="retry.maxAttempts in force for the first upstream, the first attempt included."
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.summary.revision`,description="Start of the revision of the first document that holds this policy."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TimeoutPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// Spec is what clients shall do.
	// +required
	Spec TimeoutPolicySpec `json:"spec"`
	// Status is what the operator and the clients made of it.
	// +optional
	Status TimeoutPolicyStatus `json:"status,omitempty,omitzero"`
}

// TimeoutPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type TimeoutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []TimeoutPolicy `json:"items"`
}

// ClientName is the name of a caller, such as "checkout": many pods, one name.
// A DNS label (RFC 1123): 1 to 63 lower case letters, digits and '-', with a
// letter or digit at both ends.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type ClientName string

// Label is a DNS label (RFC 1123): 1 to 63 lower case letters, digits and '-',
// with a letter or digit at both ends.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Label string

// Mode says what a client does with the rules of a policy.
//
// +kubebuilder:validation:Enum=Enforce;Shadow;Disabled
type Mode string

// The modes.
const (
	// ModeEnforce applies the rules.
	ModeEnforce Mode = "Enforce"
	// ModeShadow measures what would be cut or retried and changes nothing.
	ModeShadow Mode = "Shadow"
	// ModeDisabled treats the policy as if it were not there.
	ModeDisabled Mode = "Disabled"
)

// OnUnsupported says what a client does with rules that it cannot honour.
//
// +kubebuilder:validation:Enum=Report;Reject
type OnUnsupported string

// The reactions to rules that a client cannot honour.
const (
	// UnsupportedReport applies the rest and reports the gap.
	UnsupportedReport OnUnsupported = "Report"
	// UnsupportedReject refuses the whole document: the client keeps its last
	// good one and says why.
	UnsupportedReject OnUnsupported = "Reject"
)

// Rules about limits inside limits stand three times: Timeouts and Backoff judge
// what one level says, Upstream judges a route with what it inherits from its
// upstream, TimeoutPolicySpec judges both with what they inherit from defaults.
// Each row of those two is [a, b, b's own, …]: a of one level must fit into b of
// the other, unless b's own level, or one between, sets b itself. All loops run
// over fields with a bound, and no string is computed, so that the cost estimate
// of the API server stays small.

// TimeoutPolicySpec is what clients shall do.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.defaults) || !(has(self.defaults.timeouts) || has(self.defaults.retry)) || !self.upstreams.exists(u, ((has(u.timeouts) && [[u.?timeouts.?attempt, self.defaults.?timeouts.?total, u.?timeouts.?total], [self.defaults.?timeouts.?attempt, u.?timeouts.?total, u.?timeouts.?attempt], [u.?timeouts.?connect, self.defaults.?timeouts.?attempt, u.?timeouts.?attempt], [self.defaults.?timeouts.?connect, u.?timeouts.?attempt, u.?timeouts.?connect], [u.?timeouts.?responseHeader, self.defaults.?timeouts.?attempt, u.?timeouts.?attempt], [self.defaults.?timeouts.?responseHeader, u.?timeouts.?attempt, u.?timeouts.?responseHeader]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value()))) || (has(u.retry) && has(u.retry.backoff) && [[u.?retry.?backoff.?initial, self.defaults.?retry.?backoff.?max, u.?retry.?backoff.?max], [self.defaults.?retry.?backoff.?initial, u.?retry.?backoff.?max, u.?retry.?backoff.?initial]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value())))))`,fieldPath=".upstreams",message="in an upstream, together with what it inherits from defaults, attempt must not be longer than total, connect and responseHeader not longer than attempt, backoff.initial not longer than backoff.max: set the inherited one here too (\"0s\" for no limit)"
// +kubebuilder:validation:XValidation:rule=`!has(self.defaults) || !(has(self.defaults.timeouts) || has(self.defaults.retry)) || !self.upstreams.exists(u, has(u.routes) && u.routes.exists(r, ((has(r.timeouts) && [[r.?timeouts.?attempt, self.defaults.?timeouts.?total, r.?timeouts.?total, u.?timeouts.?total], [self.defaults.?timeouts.?attempt, r.?timeouts.?total, r.?timeouts.?attempt, u.?timeouts.?attempt], [r.?timeouts.?connect, self.defaults.?timeouts.?attempt, r.?timeouts.?attempt, u.?timeouts.?attempt], [self.defaults.?timeouts.?connect, r.?timeouts.?attempt, r.?timeouts.?connect, u.?timeouts.?connect], [r.?timeouts.?responseHeader, self.defaults.?timeouts.?attempt, r.?timeouts.?attempt, u.?timeouts.?attempt], [self.defaults.?timeouts.?responseHeader, r.?timeouts.?attempt, r.?timeouts.?responseHeader, u.?timeouts.?responseHeader]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && !p[3].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value()))) || (has(r.retry) && has(r.retry.backoff) && [[r.?retry.?backoff.?initial, self.defaults.?retry.?backoff.?max, r.?retry.?backoff.?max, u.?retry.?backoff.?max], [self.defaults.?retry.?backoff.?initial, r.?retry.?backoff.?max, r.?retry.?backoff.?initial, u.?retry.?backoff.?initial]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && !p[3].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value()))))))`,fieldPath=".upstreams",message="in a route, together with what it inherits from defaults, attempt must not be longer than total, connect and responseHeader not longer than attempt, backoff.initial not longer than backoff.max: set the inherited one here too (\"0s\" for no limit)"
type TimeoutPolicySpec struct {
	// Clients this policy is for, by the name that a workload gives its client,
	// at most 64. Absent: every client of the namespace. A policy that names a
	// client goes before one that names none, field by field; between two that
	// name it, see upstreams. An empty list is refused, since it could be read
	// both ways.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Clients []ClientName `json:"clients,omitempty"`

	// Mode: Enforce applies the rules; Shadow measures what would be cut or
	// retried, under metrics with would_ in their name, and changes nothing;
	// Disabled treats the policy as if it were not there. Absent: inherited
	// from the policies of lower precedence, in the end Enforce. Inherited and
	// overridden like any other field, for the upstreams of this policy.
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// OnUnsupported says what a client does that cannot honour a rule of this
	// policy: Report applies the rest and shows the gap in status.unsupported;
	// Reject makes it refuse the whole document, keep its last good one and say
	// why. Absent: inherited, in the end Report.
	// +optional
	OnUnsupported OnUnsupported `json:"onUnsupported,omitempty"`

	// Defaults hold for each upstream of this policy where the upstream itself
	// says nothing. They do not reach upstreams that only other policies list.
	// +optional
	Defaults *Rules `json:"defaults,omitempty"`

	// Upstreams are the services that are called, 1 to 64, each with a name of
	// its own. A host may belong to one upstream of a policy only. Where two
	// policies of the same precedence list the same host, the older policy (by
	// creation, then by name) wins that upstream and the other one gets the
	// condition Accepted=False with the reason Conflicted; its remaining
	// upstreams still work.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule=`self.all(u, !has(u.hosts) || self.all(v, u.name == v.name || !has(v.hosts) || size(u.hosts + v.hosts) == size(u.hosts) + size(v.hosts)))`,message="a host belongs to one upstream of a policy: leave it in one hosts list"
	// +kubebuilder:validation:XValidation:rule=`self.all(u, !has(u.service) || self.all(v, u.name == v.name || !has(v.service) || u.service.name != v.service.name || has(u.service.__namespace__) != has(v.service.__namespace__) || (has(u.service.__namespace__) && u.service.__namespace__ != v.service.__namespace__) || has(u.service.port) != has(v.service.port) || (has(u.service.port) && u.service.port != v.service.port)))`,message="a service belongs to one upstream of a policy: leave it in one"
	Upstreams []Upstream `json:"upstreams"`
}

// Upstream is a service that is called, and the rules for calls to it.
//
// +kubebuilder:validation:XValidation:rule=`has(self.service) || has(self.hosts)`,message="an upstream needs a target: set service, hosts, or both"
// +kubebuilder:validation:XValidation:rule=`!has(self.routes) || !self.routes.exists(r, ((has(r.timeouts) && [[r.?timeouts.?attempt, self.?timeouts.?total, r.?timeouts.?total], [self.?timeouts.?attempt, r.?timeouts.?total, r.?timeouts.?attempt], [r.?timeouts.?connect, self.?timeouts.?attempt, r.?timeouts.?attempt], [self.?timeouts.?connect, r.?timeouts.?attempt, r.?timeouts.?connect], [r.?timeouts.?responseHeader, self.?timeouts.?attempt, r.?timeouts.?attempt], [self.?timeouts.?responseHeader, r.?timeouts.?attempt, r.?timeouts.?responseHeader]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value()))) || (has(r.retry) && has(r.retry.backoff) && [[r.?retry.?backoff.?initial, self.?retry.?backoff.?max, r.?retry.?backoff.?max], [self.?retry.?backoff.?initial, r.?retry.?backoff.?max, r.?retry.?backoff.?initial]].exists(p, p[0].hasValue() && p[1].hasValue() && !p[2].hasValue() && duration(p[1].value()) > duration('0s') && duration(p[0].value()) > duration(p[1].value())))))`,fieldPath=".routes",message="in a route, together with what it inherits from the upstream, attempt must not be longer than total, connect and responseHeader not longer than attempt, backoff.initial not longer than backoff.max: set the inherited one here too (\"0s\" for no limit)"
type Upstream struct {
	// Name of the upstream, a DNS label, unique in the policy. It is the value
	// of the metric label "upstream"; changing it starts new time series and
	// fresh breaker and retry-budget state.
	// +required
	Name Label `json:"name"`

	// Service in the cluster. It stands for every spelling of its in-cluster
	// DNS name. At least one of service and hosts must be set; with both, the
	// upstream has all their names.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// Hosts that clients call, as they write them in URLs or targets, 1 to 16
	// patterns: a DNS name ("orders.example.com"), a name with a port
	// ("orders.example.com:8443"), a wildcard that stands alone in the leftmost
	// label and covers every name below ("*.example.com"), an IPv4 address, or
	// an IPv6 address in brackets, each with or without a port. Without a port
	// the pattern covers every port. Letter case and a trailing dot do not
	// matter. The most specific pattern wins: an exact name before a wildcard,
	// a longer wildcard before a shorter one, one port before any port.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Hosts []HostPattern `json:"hosts,omitempty"`

	// Rules of the upstream. They override defaults, field by field.
	Rules `json:",inline"`

	// Routes are parts of the upstream's calls with rules of their own, at most
	// 16, each with a name of its own. The most specific match applies, whatever
	// the order in the list; its fields override the upstream's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule=`self.all(a, !has(a.match.path) || self.all(b, !has(b.match.path) || a.match.path != b.match.path || a.name == b.name || (has(a.match.pathMatch) && a.match.pathMatch == 'Exact') != (has(b.match.pathMatch) && b.match.pathMatch == 'Exact') || has(a.match.methods) != has(b.match.methods) || (has(a.match.methods) && a.match.methods != b.match.methods)))`,message="two routes select the same calls: make one route of them, or tell their matches apart"
	// +kubebuilder:validation:XValidation:rule=`self.all(a, has(a.match.path) || has(a.match.grpc) || self.all(b, has(b.match.path) || has(b.match.grpc) || a.name == b.name || has(a.match.methods) != has(b.match.methods) || (has(a.match.methods) && a.match.methods != b.match.methods)))`,message="two routes select the same calls: make one route of them, or tell their matches apart"
	// +kubebuilder:validation:XValidation:rule=`self.all(a, !has(a.match.grpc) || self.all(b, !has(b.match.grpc) || a.name == b.name || has(a.match.grpc.service) != has(b.match.grpc.service) || (has(a.match.grpc.service) && a.match.grpc.service != b.match.grpc.service) || has(a.match.grpc.method) != has(b.match.grpc.method) || (has(a.match.grpc.method) && a.match.grpc.method != b.match.grpc.method)))`,message="two routes select the same calls: make one route of them, or tell their matches apart"
	Routes []Route `json:"routes,omitempty"`
}

// HostPattern selects hosts: a DNS name, a leftmost-label wildcard, an IPv4
// address or a bracketed IPv6 address, with or without a port.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=262
// +kubebuilder:validation:XValidation:rule=`self.startsWith('[') ? self.matches('^[[](([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4})*)?::([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4})*)?)[]](:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$') && (!self.contains('::') || size(self.find('^[^]]*').findAll('[0-9A-Fa-f]+')) <= 7) : self.matches('^([*][.])?([A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?[.])*[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?[.]?(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$')`,message="this is no host pattern: write a DNS name (\"orders.example.com\"), a wildcard alone in the leftmost label (\"*.example.com\"), an IPv4 address or a bracketed IPv6 address, each with or without a port from 1 to 65535, without scheme and path"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^[*][.]((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]?(:|$)')`,message="an address cannot have a wildcard: list the addresses, or write a DNS name"
// +kubebuilder:validation:XValidation:rule=`self.startsWith('[') || size(self.find('^[^:]*').replace('*.', "")) - (self.find('^[^:]*').endsWith('.') ? 1 : 0) <= 253`,message="a DNS name has at most 253 characters: shorten it"
type HostPattern string

// ServiceReference names a Service of the cluster.
type ServiceReference struct {
	// Name of the Service.
	// +required
	Name Label `json:"name"`
	// Namespace of the Service. Absent: the namespace of the policy. The bare
	// name ("orders") is among the spellings only for the policy's own
	// namespace, since a pod resolves it there.
	// +optional
	Namespace Label `json:"namespace,omitempty"`
	// Port of the Service, 1 to 65535. Absent: calls to any port. A Service that
	// does not exist or lacks the port makes ResolvedRefs False; the rules hold
	// all the same for whoever calls those names.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

// Route is a part of an upstream's calls with rules of its own.
type Route struct {
	// Name of the route, a DNS label, unique in the upstream. It is the value of
	// the metric label "route".
	// +required
	Name Label `json:"name"`
	// Match selects the calls.
	// +required
	Match Match `json:"match"`
	// Rules of the route. They override the upstream's, field by field.
	Rules `json:",inline"`
}

// Match selects calls. Every field that is set must match; an empty match
// selects every call. Where several routes match a call, the most specific one
// applies: gRPC service and method, gRPC service, gRPC method, any gRPC call,
// exact path, the longer of two prefixes, methods alone; with equal paths the
// one with fewer methods, then by text.
//
// +kubebuilder:validation:XValidation:rule="!has(self.grpc) || (!has(self.methods) && !has(self.path) && !has(self.pathMatch))",message="grpc excludes methods, path and pathMatch: make two routes of it"
// +kubebuilder:validation:XValidation:rule="!has(self.pathMatch) || has(self.path)",message="pathMatch needs a path: set path, or leave pathMatch out"
type Match struct {
	// Methods of HTTP requests, at most 16, letter case matters ("GET"). Absent:
	// any method.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Methods []Token `json:"methods,omitempty"`
	// Path of the URL as it is sent (escaped), without the query, from "/" on.
	// Absent: any path.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must begin with \"/\", as in \"/v1/refunds/\""
	Path string `json:"path,omitempty"`
	// PathMatch: Exact wants the whole path; Prefix wants whole leading path
	// elements, so that /v1/refunds and /v1/refunds/ both match /v1/refunds and
	// /v1/refunds/7, but not /v1/refundslist. Absent: Prefix.
	// +optional
	PathMatch PathMatch `json:"pathMatch,omitempty"`
	// GRPC selects gRPC calls; it excludes methods and path.
	// +optional
	GRPC *GRPCMatch `json:"grpc,omitempty"`
}

// PathMatch says how a path is compared.
//
// +kubebuilder:validation:Enum=Exact;Prefix
type PathMatch string

// The comparisons.
const (
	// PathExact wants the whole path.
	PathExact PathMatch = "Exact"
	// PathPrefix wants whole leading path elements; it is the default.
	PathPrefix PathMatch = "Prefix"
)

// GRPCMatch selects gRPC calls. Both fields absent: every gRPC call.
type GRPCMatch struct {
	// Service is the full name, such as "shop.v1.Orders". Absent: every service.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`
	Service string `json:"service,omitempty"`
	// Method is the bare name, such as "Refund". Absent: every method.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Method string `json:"method,omitempty"`
}
