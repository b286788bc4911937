package controllers

import "github.com/timeout-operator/timeout-operator/api/v1alpha1"

// The rights of the manager, from which controller-gen makes config/rbac/role.yaml.
// A test compares them with [RequiredAccess].
//
// +kubebuilder:rbac:groups=timeout-operator.dev,resources=timeoutpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=timeout-operator.dev,resources=timeoutpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=timeout-operator.dev,resources=clientreports,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=timeoutpolicies.timeout-operator.dev;clientreports.timeout-operator.dev,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=timeout-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=timeout-system,verbs=create;patch

// Access is what the manager must be allowed to do with one resource.
type Access struct {
	Group, Resource, Subresource string
	// Name restricts it to one object; empty means all.
	Name string
	// Namespace restricts it to one namespace; empty means every namespace that
	// is watched.
	Namespace string
	// ClusterScoped says that the resource has no namespace.
	ClusterScoped bool
	Verbs         []string
}

// CRDNames are the CustomResourceDefinitions that the operator works with.
func CRDNames() []string {
	return []string{policyCRD, "clientreports." + v1alpha1.Group}
}

const policyCRD = "timeoutpolicies." + v1alpha1.Group

// RequiredAccess lists what the manager must be allowed to do. leaseNamespace is
// where leader election keeps its lease; empty means that there is none. Without
// reports neither they nor pods are read. Events are left out: the operator
// works without the right to write them.
func RequiredAccess(leaseNamespace string, reports bool) []Access {
	required := []Access{
		{Group: v1alpha1.Group, Resource: "timeoutpolicies", Verbs: []string{"list", "watch"}},
		{Group: v1alpha1.Group, Resource: "timeoutpolicies", Subresource: "status", Verbs: []string{"patch"}},
		{Resource: "configmaps", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Resource: "services", Verbs: []string{"list", "watch"}},
		{Resource: "namespaces", Verbs: []string{"get"}, ClusterScoped: true},
	}
	if reports {
		required = append(required,
			Access{Group: v1alpha1.Group, Resource: "clientreports", Verbs: []string{"list", "watch"}},
			Access{Resource: "pods", Verbs: []string{"list", "watch"}})
	}
	for _, name := range CRDNames() {
		required = append(required, Access{
			Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: name,
			ClusterScoped: true, Verbs: []string{"get"},
		})
	}
	if leaseNamespace != "" {
		required = append(required, Access{
			Group: "coordination.k8s.io", Resource: "leases", Namespace: leaseNamespace,
			Verbs: []string{"get", "create", "update"},
		})
	}
	return required
}
