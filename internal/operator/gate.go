package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/controllers"
)

// checkTimeout bounds one question to the API server.
const checkTimeout = 5 * time.Second

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// gate asks the API server whether the operator could work. controller-runtime
// looks healthy for two minutes and then exits when a kind is missing
// (kubernetes-sigs/controller-runtime#2589); so nothing is started before the
// gate is open, and it is asked again when a watch fails.
type gate struct {
	crds   dynamic.ResourceInterface
	access authorizationclient.AuthorizationV1Interface
	// namespaces that are watched; empty means all.
	namespaces []string
	needs      []controllers.Access
}

func newGate(config *rest.Config, namespaces []string, needs []controllers.Access) (*gate, error) {
	config = rest.CopyConfig(config)
	config.Timeout = checkTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	crds, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	access, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &gate{crds: crds.Resource(crdResource), access: access, namespaces: namespaces, needs: needs}, nil
}

// check asks everything: what the API server has, then what it allows. The
// rights come second, so that they are judged even where the first question was
// not allowed.
func (g *gate) check(ctx context.Context) *NotReadyError {
	kinds := g.checkKinds(ctx)
	if kinds != nil && kinds.Reason != ReasonForbidden {
		return kinds
	}
	if access := g.checkAccess(ctx); access != nil {
		return access
	}
	return kinds
}

// checkKinds asks whether both kinds are served. It only reads, so it can be
// repeated for as long as the process lives.
func (g *gate) checkKinds(ctx context.Context) *NotReadyError {
	for _, name := range controllers.CRDNames() {
		crd, err := g.crds.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return &NotReadyError{ReasonCRDMissing, fmt.Sprintf(
				"the CustomResourceDefinition %s is not installed: kubectl apply -k config/crd", name)}
		case err != nil:
			return classify(err, "get the CustomResourceDefinition "+name)
		}
		if fault := crdFault(crd); fault != "" {
			return &NotReadyError{ReasonCRDMissing, fmt.Sprintf("the CustomResourceDefinition %s %s", name, fault)}
		}
	}
	return nil
}

// crdFault says why a CustomResourceDefinition cannot be used; empty when it can.
func crdFault(crd *unstructured.Unstructured) string {
	if crd.GetDeletionTimestamp() != nil {
		return "is being deleted; documents stay as they are, so that clients keep their policy"
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if !slices.ContainsFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		return version["name"] == v1alpha1.GroupVersion.Version && version["served"] == true
	}) {
		return fmt.Sprintf("does not serve version %s: install the one of this release", v1alpha1.GroupVersion.Version)
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if !slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	}) {
		return "is not established yet"
	}
	return ""
}

// checkAccess asks whether this identity may do what the controllers do, and
// names everything that it may not.
func (g *gate) checkAccess(ctx context.Context) *NotReadyError {
	var denied []string
	for _, need := range g.needs {
		for _, namespace := range g.scopes(need) {
			verbs, err := g.deniedVerbs(ctx, need, namespace)
			if err != nil {
				return classify(err, "ask for its own rights")
			}
			if len(verbs) > 0 {
				denied = append(denied, describe(need, verbs, namespace))
			}
		}
	}
	if len(denied) > 0 {
		return &NotReadyError{ReasonForbidden, fmt.Sprintf(
			"the operator may not %s: bind the ClusterRole of config/rbac to its service account", strings.Join(denied, "; "))}
	}
	return nil
}

// scopes are the namespaces to ask for; the empty one stands for all.
func (g *gate) scopes(need controllers.Access) []string {
	switch {
	case need.Namespace != "":
		return []string{need.Namespace}
	case need.ClusterScoped || len(g.namespaces) == 0:
		return []string{metav1.NamespaceAll}
	default:
		return g.namespaces
	}
}

func (g *gate) deniedVerbs(ctx context.Context, need controllers.Access, namespace string) ([]string, error) {
	var denied []string
	for _, verb := range need.Verbs {
		allowed, err := g.allowed(ctx, need, verb, namespace)
		if err != nil {
			return nil, err
		}
		if !allowed {
			denied = append(denied, verb)
		}
	}
	return denied, nil
}

func (g *gate) allowed(ctx context.Context, need controllers.Access, verb, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace:   namespace,
				Verb:        verb,
				Group:       need.Group,
				Resource:    need.Resource,
				Subresource: need.Subresource,
				Name:        need.Name,
			},
		},
	}
	answer, err := g.access.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// describe names what is denied, as in "list, watch pods in namespace shop".
func describe(need controllers.Access, verbs []string, namespace string) string {
	what := strings.Join(verbs, ", ") + " " + need.Resource
	if need.Subresource != "" {
		what += "/" + need.Subresource
	}
	if need.Group != "" {
		what += "." + need.Group
	}
	if need.Name != "" {
		what += " " + need.Name
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	return what
}

// classify turns an error of a request into a state: what is the operator's
// fault, what is the installer's, what will pass.
func classify(err error, doing string) *NotReadyError {
	switch {
	case apierrors.IsUnauthorized(err):
		return &NotReadyError{ReasonUnauthorized, "the API server does not accept the operator's credentials"}
	case apierrors.IsForbidden(err):
		return &NotReadyError{ReasonForbidden, fmt.Sprintf("the operator may not %s: bind the ClusterRole of config/rbac to its service account", doing)}
	default:
		var request *url.Error
		if errors.As(err, &request) {
			return &NotReadyError{ReasonUnreachable, fmt.Sprintf("cannot reach the API server: %v", request.Err)}
		}
		return &NotReadyError{ReasonUnreachable, fmt.Sprintf("the API server fails to %s: %v", doing, err)}
	}
}
