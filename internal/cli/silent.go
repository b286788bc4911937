package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// mountedBy lists the pods by the ConfigMap of the document that they read from
// a mount: their client's own, or where they mount none that is in use, the
// namespace's. Which client a pod runs is not known from outside; what it mounts
// is.
func mountedBy(pods map[string]*unstructured.Unstructured, existing []plan.ExistingDocument) map[string][]string {
	inUse := map[string]bool{}
	for _, document := range existing {
		inUse[document.ConfigMap] = !document.Tombstone
	}
	byDocument := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		var pod corev1.Pod
		if decode(pods[name], &pod) != nil {
			continue
		}
		mounted := map[string]bool{}
		for _, configMap := range configMapsOf(&pod) {
			if inUse[configMap] {
				mounted[configMap] = true
			}
		}
		if len(mounted) > 1 {
			delete(mounted, v1alpha1.DocumentConfigMap)
		}
		for configMap := range mounted {
			byDocument[configMap] = append(byDocument[configMap], name)
		}
	}
	return byDocument
}

// configMapsOf lists the ConfigMaps that a pod mounts.
func configMapsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.ConfigMap != nil {
			names = append(names, volume.ConfigMap.Name)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap != nil {
				names = append(names, source.ConfigMap.Name)
			}
		}
	}
	return names
}

// silentNote names the pods of one document that report nothing.
func silentNote(configMap string, pods []string) string {
	const named = 5
	text := strings.Join(pods[:min(len(pods), named)], ", ")
	if more := len(pods) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("pods that mount the ConfigMap %s and report nothing, so that nothing is known of them: %s", configMap, text)
}
