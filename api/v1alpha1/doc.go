// Package v1alpha1 is the API group timeout-operator.dev: [TimeoutPolicy], which
// people write, and [ClientReport], which workloads write about themselves.
//
// The types carry no logic. Every field that a policy can leave to another one
// is a pointer or a list that keeps nil and empty apart, so that "absent",
// "0s" and [] survive a round trip as three different things. Strings are never
// decoded on the way in: an object that was stored before a rule existed can
// always be read, and whoever uses a value judges it then.
//
// The package applyconfiguration below this one has builders for server-side
// apply. They leave an empty list out: to say [], apply the typed object.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=applyconfiguration
// +groupName=timeout-operator.dev
package v1alpha1
