package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// ServiceRefs returns the Services that the policies name, without duplicates
// and in order: the keys that Input.Services is looked up by.
func ServiceRefs(policies []v1alpha1.TimeoutPolicy) []types.NamespacedName {
	var refs []types.NamespacedName
	for i := range policies {
		for j := range policies[i].Spec.Upstreams {
			if s := policies[i].Spec.Upstreams[j].Service; s != nil {
				refs = append(refs, serviceName(policies[i].Namespace, s))
			}
		}
	}
	slices.SortFunc(refs, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}

func serviceName(own string, s *v1alpha1.ServiceReference) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(string(s.Namespace), own), Name: string(s.Name)}
}
