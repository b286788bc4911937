package v1alpha1

// Condition types of a TimeoutPolicy. Each is positive and always carries
// observedGeneration; its message names the other object, if there is one.
const (
	// ConditionAccepted: the policy is valid and, where it conflicts with
	// another one, it is the winner.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs: the Services that it names exist and have the ports.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionProgrammed: the documents of its clients hold this generation.
	ConditionProgrammed = "Programmed"
	// ConditionAcknowledged: the reporting pods have this generation in force. A
	// True is latched per generation: pods that come and go do not take it back.
	ConditionAcknowledged = "Acknowledged"
	// ConditionCapable: the reporting pods can enforce every field of it.
	ConditionCapable = "Capable"
	// ConditionReady sums the others up: True when all are, else the reason and
	// message of the first that is False, else of the first that is Unknown.
	ConditionReady = "Ready"
)

// Reasons of Accepted.
const (
	// ReasonAccepted (True): the policy is valid and nothing of it was left out
	// for a conflict.
	ReasonAccepted = "Accepted"
	// ReasonConflicted (False): an older policy of the same precedence lists a
	// host of this one; the message names it and the upstream that it won. The
	// remaining upstreams of this policy still work.
	ReasonConflicted = "Conflicted"
	// ReasonInvalid (False): the spec breaks a rule that admission did not check,
	// because the object was stored before the rule existed or because the rule
	// looks at more than one level. The message names the field and the mend.
	// Nothing of the policy is rendered.
	ReasonInvalid = "Invalid"
)

// Reasons of ResolvedRefs.
const (
	// ReasonResolvedRefs (True): each Service exists and has the port.
	ReasonResolvedRefs = "ResolvedRefs"
	// ReasonServiceNotFound (False): a Service is not there; the message names
	// it. The rules are rendered all the same.
	ReasonServiceNotFound = "ServiceNotFound"
	// ReasonPortNotFound (False): a Service has no such port; the message names
	// both. The rules are rendered all the same.
	ReasonPortNotFound = "PortNotFound"
)

// Reasons of Programmed.
const (
	// ReasonProgrammed (True): each client's ConfigMap holds this generation.
	ReasonProgrammed = "Programmed"
	// ReasonRenderFailed (False): a ConfigMap could not be written, and the
	// message says which and why; or nothing is rendered since the policy is
	// invalid.
	ReasonRenderFailed = "RenderFailed"
	// ReasonDocumentTooLarge (False): with this policy a document would not fit;
	// the message names the client and the size. The policies that fit are
	// rendered without it.
	ReasonDocumentTooLarge = "DocumentTooLarge"
	// ReasonOverridden (False): nothing of the policy is in force, because its
	// mode is Disabled or because it lost each of its upstreams to an older
	// policy.
	ReasonOverridden = "Overridden"
	// ReasonReconciling (Unknown): the operator has not rendered this generation
	// yet.
	ReasonReconciling = "Reconciling"
)

// Reasons of Acknowledged.
const (
	// ReasonAllAcknowledged (True): every reporting pod has this generation in
	// force, but for a tolerated few that are stale, or had when the condition
	// first became True.
	ReasonAllAcknowledged = "AllAcknowledged"
	// ReasonRejected (False): a pod refused the document and kept its last good
	// one; the message names a pod and its reason.
	ReasonRejected = "Rejected"
	// ReasonTimeout (False): pods said nothing about this generation for longer
	// than a mounted ConfigMap can take; the message counts them.
	ReasonTimeout = "Timeout"
	// ReasonPropagating (Unknown): pods have not answered yet, and it is too
	// early to expect it. A mounted ConfigMap takes up to about 90 s.
	ReasonPropagating = "Propagating"
)

// Reasons of Capable.
const (
	// ReasonAllCapable (True): every reporting pod can enforce every field.
	ReasonAllCapable = "AllCapable"
	// ReasonMissingCapability (False): some pod cannot; status.unsupported and
	// status.deadRetryableKinds say which field and how many pods.
	ReasonMissingCapability = "MissingCapability"
)

// Reasons that several conditions share.
const (
	// ReasonNoClients (Unknown; Acknowledged, Capable and Ready): no pod reports
	// a client that this policy is for.
	ReasonNoClients = "NoClients"
	// ReasonReportingDisabled (Unknown; Acknowledged and Capable): the operator
	// runs without client reports.
	ReasonReportingDisabled = "ReportingDisabled"
	// ReasonReady (True; Ready): all other conditions are True.
	ReasonReady = "Ready"
)
