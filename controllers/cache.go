package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// CacheOptions say what the manager keeps in memory: of every watched kind only
// the objects and the fields that a plan needs, so that neither other people's
// ConfigMaps (kubernetes-sigs/controller-runtime#1491) nor unrelated pods
// (temporalio/temporal-worker-controller#331) cost anything to speak of. No
// namespaces means all.
func CacheOptions(namespaces ...string) cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		// What is not watched is never cached by accident: such a read fails.
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {
				Label:     labels.SelectorFromSet(managedBy()),
				Transform: transform(summarizeDocument),
			},
			&storedPolicy{}:   {Transform: transform(stripPolicy)},
			&corev1.Service{}: {Transform: transform(stripService)},
			newPod(): {
				// Finished pods do not run a client any more.
				Field: fields.AndSelectors(
					fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
					fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))),
				Transform: transform(stripPod),
			},
			&storedReport{}: {Transform: transform(stripReport)},
		},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// WatchedObjects lists one object of each kind that the controllers watch.
func WatchedObjects(reports bool) []client.Object {
	watched := []client.Object{&storedPolicy{}, &corev1.ConfigMap{}, &corev1.Service{}}
	if reports {
		watched = append(watched, &storedReport{}, newPod())
	}
	return watched
}

func managedBy() map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.OperatorFieldManager}
}

// newPod is a Pod without spec and status.
func newPod() *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// transform makes a cache transform of a function that changes one kind. The
// cache also hands in tombstones of missed deletions, which stay as they are.
func transform[T client.Object](strip func(T)) toolscache.TransformFunc {
	return func(in any) (any, error) {
		if object, ok := in.(T); ok {
			object.SetManagedFields(nil)
			strip(object)
		}
		return in, nil
	}
}

// stripPolicy takes away the second copy of the spec that kubectl apply leaves in
// an annotation.
func stripPolicy(policy *storedPolicy) {
	if _, there := policy.Annotations[corev1.LastAppliedConfigAnnotation]; there {
		policy.Annotations = maps.Clone(policy.Annotations)
		delete(policy.Annotations, corev1.LastAppliedConfigAnnotation)
	}
}

// stripPod keeps what ties a report to its pod.
func stripPod(pod *metav1.PartialObjectMetadata) {
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace:         pod.Namespace,
		Name:              pod.Name,
		UID:               pod.UID,
		ResourceVersion:   pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp,
		DeletionTimestamp: pod.DeletionTimestamp,
	}
}

// stripService keeps the port numbers.
func stripService(service *corev1.Service) {
	service.ObjectMeta = metav1.ObjectMeta{
		Namespace:       service.Namespace,
		Name:            service.Name,
		UID:             service.UID,
		ResourceVersion: service.ResourceVersion,
	}
	ports := make([]corev1.ServicePort, len(service.Spec.Ports))
	for i := range service.Spec.Ports {
		ports[i].Port = service.Spec.Ports[i].Port
	}
	service.Spec = corev1.ServiceSpec{Ports: ports}
	service.Status = corev1.ServiceStatus{}
}

// The data of a document's ConfigMap as it is cached: not the document, which
// can have half a megabyte, but what it takes to compare it and to see which
// policies it came from. The API server accepts no key with a slash, so a summary
// is never taken for what is stored.
const (
	summaryDigest   = "summary/digest"
	summaryPolicies = "summary/policies"
)

// summarizeDocument replaces the document by its summary. The cache may call it
// twice for one object.
func summarizeDocument(configMap *corev1.ConfigMap) {
	configMap.Data, configMap.BinaryData = summaryOf(configMap), nil
}

// summaryOf returns the summary of a ConfigMap's document, whether it was made
// already or not; nil when there is no document.
func summaryOf(configMap *corev1.ConfigMap) map[string]string {
	if _, made := configMap.Data[summaryDigest]; made {
		return configMap.Data
	}
	document, ok := configMap.Data[v1alpha1.DocumentKey]
	if !ok {
		return nil
	}
	return map[string]string{
		summaryDigest:   digest([]byte(document)),
		summaryPolicies: strings.Join(policiesOf(document), ","),
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// policiesOf returns the names of the policies that a stored document says it
// was made from, valid or not.
func policiesOf(document string) []string {
	var content struct {
		Policies []struct {
			Name string `json:"name"`
		} `json:"policies"`
	}
	if json.Unmarshal([]byte(document), &content) != nil {
		return nil
	}
	var names []string
	for _, policy := range content.Policies {
		names = append(names, policy.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
