package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// Input is everything that a plan for one namespace depends on. Lists may come
// in any order. Plan reads the objects and never changes them.
type Input struct {
	// Namespace to plan for. Policies and reports of other namespaces are left
	// out of account.
	Namespace string
	// Policies of the namespace, those that are being deleted left out.
	Policies []v1alpha1.TimeoutPolicy
	// Faults says, by name of a policy, why its stored spec cannot be read at
	// all. Such a policy is invalid, whatever of its spec is there.
	Faults map[string]string
	// Services holds the Services that [ServiceRefs] names and that exist, in
	// whatever namespace they are. A reference without an entry does not exist.
	Services map[types.NamespacedName]Service
	// Existing are the documents of the namespace as they are stored.
	Existing []ExistingDocument
	// Reports of live pods only: the owner exists, with the UID that the report
	// names, and is neither finished nor being deleted. Their creationTimestamp
	// is [FirstSaid].
	Reports []v1alpha1.ClientReport
	// Voices are such reports too, counted already; see [Census]. They show in
	// every number, but not in [Output.Readers].
	Voices []Voice
	// Memo of earlier plans of the namespace; nil for none. Plan changes it. With
	// one, documents that it knows, and those beyond Memo.MaxHeld, come without
	// their Data: see [Output.Render].
	Memo *Memo
	// Options of the operator. Zero fields have the defaults they name.
	Options Options
	// Now is the time of the plan; it decides what is stale.
	Now time.Time
}

// Service is what a plan needs to know of a Kubernetes Service.
type Service struct {
	// Ports by number. A Service without any (ExternalName, headless without
	// ports) is taken to have every port.
	Ports []int32
}

// ExistingDocument is a rendered ConfigMap as it is stored.
type ExistingDocument struct {
	// ConfigMap is its name.
	ConfigMap string
	// Foreign says that a ConfigMap of that name is not the operator's: it has
	// no label v1alpha1.LabelManagedBy with the operator's value. It is never
	// overwritten, and the policies that need the name say so. A foreign
	// ConfigMap of a name that no plan needs may be left out.
	Foreign bool
	// Client as in v1alpha1.LabelDocument; empty for the namespace's document.
	Client string
	// Revision as in v1alpha1.AnnotationRevision; empty when it is missing.
	Revision string
	// Tombstone as in [AnnotationTombstone].
	Tombstone bool
	// Since is when this revision was written, as in [AnnotationSince]; zero
	// when it is missing, which counts as long ago.
	Since time.Time
}

// Options are the operator's settings that a plan depends on.
type Options struct {
	// ClusterDomain of in-cluster names. Empty means "cluster.local".
	ClusterDomain string
	// StaleAfter is how long after a document was written (or its pod first
	// reported, if that is later) a client that does not follow is stale.
	// Zero means 180s; less is taken as 180s, since the kubelet alone needs up
	// to 90s for a mounted ConfigMap.
	StaleAfter time.Duration
	// StalePercent is how many clients of a hundred may be stale without
	// keeping a generation from being acknowledged. One may in any case, as
	// long as another one applied. Zero means 10; a negative number means only
	// that one.
	StalePercent int
	// TombstoneFor is how long a tombstone is kept at least. Zero means 10m.
	TombstoneFor time.Duration
	// MaxDocumentBytes bounds a rendered document. Zero means 512 KiB.
	MaxDocumentBytes int
	// ReportingDisabled clears every number that comes from reports.
	ReportingDisabled bool
}

// Output is what should be. It does not depend on the order of the input.
type Output struct {
	// Documents that should exist, tombstones included, by ConfigMap name,
	// whether they are to be written or exist already (see
	// [RenderedDocument.Current]). Foreign and kept ones (see Plan) are not in it.
	Documents []RenderedDocument
	// Deletions are the names of ConfigMaps, tombstones that nobody uses any
	// more, in order.
	Deletions []string
	// Statuses of all policies of the namespace, by name. They hold on the
	// condition that every document of Documents gets written; where one does
	// not, use those of [Output.WithFailures] or [Output.WithPending].
	Statuses []PolicyStatus
	// Events to emit once the status of their policy was written, in order.
	Events []Event
	// RequeueAfter is when time alone changes the plan; 0 means never.
	RequeueAfter time.Duration

	state   *planner
	outcome outcome
}

// Annotations of a rendered ConfigMap that plans read back.
const (
	// AnnotationSince is when the revision of the document was written first,
	// in RFC 3339, UTC, whole seconds.
	AnnotationSince = v1alpha1.Group + "/since"
	// AnnotationTombstone is "true" on a ConfigMap whose document is a tombstone.
	AnnotationTombstone = v1alpha1.Group + "/tombstone"
)

// RenderedDocument is a ConfigMap that should exist, with
// v1alpha1.DocumentKey = Data as its only data.
type RenderedDocument struct {
	// ConfigMap is its name.
	ConfigMap string
	// Client that it is for; empty for the namespace's document.
	Client string
	// Revision inside Data.
	Revision string
	// Tombstone says that no policy is left for the client.
	Tombstone bool
	// Since is the time of the plan, or of the existing document when that has
	// the same revision.
	Since time.Time
	// Data is the document as rendered and read back; it may be nil with
	// Input.Memo.
	Data []byte
	// Digest is the SHA-256 of the document, in hex, and Bytes its length.
	Digest string
	Bytes  int
	// Labels and Annotations of the ConfigMap. Both depend on the other fields
	// alone, so that a document that did not change applies as a no-op.
	Labels, Annotations map[string]string
	// Current says that the existing ConfigMap says that it holds this
	// revision. Whether it really does is for the writer to compare.
	Current bool
}

// PolicyStatus is the status that one policy should have, in full.
type PolicyStatus struct {
	Name string
	UID  types.UID
	// Status replaces the stored one.
	Status v1alpha1.TimeoutPolicyStatus
	// Changed says that it differs from the stored one in more than revisions of
	// documents; otherwise it is the stored one, and there is nothing to write.
	Changed bool
}

// Event tells people about a condition that changed. Reasons are those of the
// conditions.
type Event struct {
	// Policy is the name of the policy that the event is about.
	Policy string
	// Warning, or else a Normal event.
	Warning bool
	// Reason and Message are those of the condition.
	Reason, Message string
}
