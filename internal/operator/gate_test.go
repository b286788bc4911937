package operator

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/timeout-operator/timeout-operator/controllers"
)

// newCRD is one that can be used.
func newCRD(name string, change func(map[string]any)) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1alpha1", "served": true}}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}
	if change != nil {
		change(object)
	}
	return &unstructured.Unstructured{Object: object}
}

// newFakeGate is a gate in a world with some CustomResourceDefinitions, where
// everything is allowed but the denied verbs.
func newFakeGate(namespaces []string, crds []runtime.Object, denied ...string) (*gate, *[]authorizationv1.ResourceAttributes) {
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{crdResource: "CustomResourceDefinitionList"}, crds...)
	clientset := fake.NewClientset()
	asked := &[]authorizationv1.ResourceAttributes{}
	clientset.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		attributes := *review.Spec.ResourceAttributes
		*asked = append(*asked, attributes)
		review.Status.Allowed = !slices.Contains(denied, attributes.Verb+" "+attributes.Resource)
		return true, review, nil
	})
	return &gate{
		crds: dynamic.Resource(crdResource), access: clientset.AuthorizationV1(),
		namespaces: namespaces, needs: controllers.RequiredAccess("lease-namespace", true),
	}, asked
}

func TestGateSaysWhatIsMissing(t *testing.T) {
	const policies, reports = "timeoutpolicies.timeout-operator.dev", "clientreports.timeout-operator.dev"
	for _, c := range []struct {
		name    string
		crds    []runtime.Object
		denied  []string
		reason  Reason
		message string
	}{
		{"everything is there", []runtime.Object{newCRD(policies, nil), newCRD(reports, nil)}, nil, "", ""},
		{"no policies", []runtime.Object{newCRD(reports, nil)}, nil, ReasonCRDMissing, policies + " is not installed"},
		{"no reports", []runtime.Object{newCRD(policies, nil)}, nil, ReasonCRDMissing, reports + " is not installed"},
		{"being deleted", []runtime.Object{newCRD(policies, func(o map[string]any) {
			o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		})}, nil, ReasonCRDMissing, "is being deleted"},
		{"another version", []runtime.Object{newCRD(policies, func(o map[string]any) {
			o["spec"] = map[string]any{"versions": []any{map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1alpha1", "served": false}}}
		})}, nil, ReasonCRDMissing, "does not serve version v1alpha1"},
		{"not established", []runtime.Object{newCRD(policies, func(o map[string]any) { delete(o, "status") })}, nil, ReasonCRDMissing, "is not established yet"},
		{"rights", []runtime.Object{newCRD(policies, nil), newCRD(reports, nil)}, []string{"patch configmaps", "list pods", "watch pods"}, ReasonForbidden,
			"the operator may not patch configmaps; list, watch pods: bind the ClusterRole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := newFakeGate(nil, c.crds, c.denied...)
			why := g.check(t.Context())
			switch {
			case c.reason == "" && why != nil:
				t.Errorf("the gate is shut: %v", why)
			case c.reason != "" && (why == nil || why.Reason != c.reason || !strings.Contains(why.Message, c.message)):
				t.Errorf("the gate says %v, want %s and %q", why, c.reason, c.message)
			}
		})
	}
}

func TestGateAsksForEachWatchedNamespace(t *testing.T) {
	g, asked := newFakeGate([]string{"a", "b"}, []runtime.Object{})
	if why := g.checkAccess(t.Context()); why != nil {
		t.Fatal(why)
	}
	namespaces := map[string][]string{}
	for _, attributes := range *asked {
		namespaces[attributes.Resource] = append(namespaces[attributes.Resource], attributes.Namespace)
	}
	for resource, want := range map[string]string{
		"configmaps": "a b", "customresourcedefinitions": "", "namespaces": "", "leases": "lease-namespace",
	} {
		slices.Sort(namespaces[resource])
		if got := strings.Join(slices.Compact(namespaces[resource]), " "); got != want {
			t.Errorf("%s are asked for in %q, want %q", resource, got, want)
		}
	}
}

func TestErrorsOfRequestsHaveAReason(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err    error
		reason Reason
	}{
		{apierrors.NewUnauthorized("no"), ReasonUnauthorized},
		{apierrors.NewForbidden(resource, "x", errors.New("no")), ReasonForbidden},
		{&url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, ReasonUnreachable},
		{apierrors.NewInternalError(errors.New("etcd")), ReasonUnreachable},
		{apierrors.NewTooManyRequests("slow down", 1), ReasonUnreachable},
		{context.DeadlineExceeded, ReasonUnreachable},
	} {
		if got := classify(c.err, "list pods"); got.Reason != c.reason || strings.Contains(got.Message, "\n") {
			t.Errorf("%v is %v, want %s", c.err, got, c.reason)
		}
	}
}
