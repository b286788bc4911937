package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// NewScheme returns the scheme that the manager reads and writes with. Its own
// kinds are the forgiving ones of this package (see storedPolicy), so a client
// with this scheme does not know v1alpha1.TimeoutPolicy.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the kinds of Kubernetes: %w", err)
		}
	}
	for kind, object := range map[string]runtime.Object{
		policyKind: &storedPolicy{}, policyKind + "List": &storedPolicyList{},
		reportKind: &storedReport{}, reportKind + "List": &storedReportList{},
	} {
		scheme.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind(kind), object)
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	return scheme, nil
}

const (
	policyKind = "TimeoutPolicy"
	reportKind = "ClientReport"
)
