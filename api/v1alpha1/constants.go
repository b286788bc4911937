package v1alpha1

// Field managers of server-side apply. They are part of the contract: whoever
// changes one leaves orphaned field ownership behind.
const (
	// OperatorFieldManager owns the rendered ConfigMaps and the status of
	// policies.
	OperatorFieldManager = "timeout-operator"
	// ReporterFieldManager owns the ClientReport of a pod; clientlib uses it.
	ReporterFieldManager = "timeout-clientlib"
)

// Names of the rendered ConfigMaps.
const (
	// DocumentConfigMap is the name of the ConfigMap for every client of a
	// namespace that no policy names. The one of a named client is this name,
	// a dash and the client's name.
	DocumentConfigMap = "timeouts"
	// DocumentKey is the one data key of such a ConfigMap. It never changes
	// while the ConfigMap lives, so that a volume that lists items goes on
	// being updated.
	DocumentKey = "policy.json"
)

// Labels and annotations of the rendered ConfigMaps.
const (
	// LabelManagedBy has the value OperatorFieldManager on each ConfigMap that
	// the operator owns; a ConfigMap without it is never touched.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelDocument has the client's name as its value, empty for the document
	// of the namespace.
	LabelDocument = Group + "/document"
	// AnnotationRevision repeats the revision of the document for people and
	// for cheap comparisons. Readers use the one inside the document, since
	// annotations never reach a volume.
	AnnotationRevision = Group + "/revision"
)

// ConfigMapName returns the name of the ConfigMap that holds the document of a
// client; the empty name stands for every client that no policy names.
func ConfigMapName(client string) string {
	if client == "" {
		return DocumentConfigMap
	}
	return DocumentConfigMap + "-" + client
}
