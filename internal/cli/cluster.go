package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

var (
	policyResource    = v1alpha1.GroupVersion.WithResource("timeoutpolicies")
	reportResource    = v1alpha1.GroupVersion.WithResource("clientreports")
	configMapResource = corev1.SchemeGroupVersion.WithResource("configmaps")
	podResource       = corev1.SchemeGroupVersion.WithResource("pods")
	serviceResource   = corev1.SchemeGroupVersion.WithResource("services")
)

// cluster reads one namespace of a cluster. Objects are read as they are stored,
// also those that do not fit their schema.
type cluster struct {
	client    dynamic.Interface
	namespace string
}

func (a *app) connect() (*cluster, error) {
	config, namespace, err := a.cluster.config()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w (use -f to work on files)", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &cluster{client, namespace}, nil
}

// document finds the document that a client loads: its own, or where that is
// missing or a tombstone, the one of the namespace.
func (c *cluster) document(ctx context.Context, client string) (*document.Document, string, error) {
	names := []string{v1alpha1.ConfigMapName("")}
	if client != "" {
		names = append([]string{v1alpha1.ConfigMapName(client)}, names...)
	}
	for i, name := range names {
		object, err := c.client.Resource(configMapResource).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("read the ConfigMap %s/%s: %w", c.namespace, name, err)
		}
		text, _, _ := unstructured.NestedString(object.Object, "data", v1alpha1.DocumentKey)
		doc, err := document.Parse([]byte(text))
		if err != nil {
			return nil, "", fmt.Errorf("the document in the ConfigMap %s/%s is not valid: %w", c.namespace, name, err)
		}
		if !doc.Tombstone || i == len(names)-1 {
			return doc, "ConfigMap " + c.namespace + "/" + name, nil
		}
	}
	return nil, "", fmt.Errorf("namespace %s has no document for the client %q: no policy names it, or the operator does not run", c.namespace, client)
}

// observed is what the operator plans a namespace from, and what it does not see.
type observed struct {
	plan.Input
	// silent are the live pods without a report, by the ConfigMap of the document
	// that they mount.
	silent map[string][]string
}

// input gathers what the operator plans the namespace from.
func (c *cluster) input(ctx context.Context, clusterDomain string, now time.Time) (observed, error) {
	in := observed{Input: plan.Input{
		Namespace: c.namespace,
		Faults:    map[string]string{},
		Services:  map[types.NamespacedName]plan.Service{},
		Options:   plan.Options{ClusterDomain: clusterDomain},
		Now:       now,
	}}
	policies, err := c.list(ctx, policyResource)
	if err != nil {
		return in, err
	}
	for i := range policies {
		policy := v1alpha1.TimeoutPolicy{}
		if err := decode(&policies[i], &policy); err != nil {
			policy = v1alpha1.TimeoutPolicy{}
			policy.Namespace, policy.Name, policy.UID = c.namespace, policies[i].GetName(), policies[i].GetUID()
			policy.Generation, policy.CreationTimestamp = policies[i].GetGeneration(), policies[i].GetCreationTimestamp()
			in.Faults[policy.Name] = fmt.Sprintf("cannot be read: %v", err)
		}
		if policy.DeletionTimestamp == nil {
			in.Policies = append(in.Policies, policy)
		}
	}
	if err := c.services(ctx, &in.Input); err != nil {
		return in, err
	}
	if err := c.documents(ctx, &in.Input); err != nil {
		return in, err
	}
	return in, c.reports(ctx, &in)
}

func (c *cluster) list(ctx context.Context, resource schema.GroupVersionResource, fields ...string) ([]unstructured.Unstructured, error) {
	list, err := c.client.Resource(resource).Namespace(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: strings.Join(fields, ",")})
	if err != nil {
		return nil, fmt.Errorf("list the %s of namespace %s: %w", resource.Resource, c.namespace, err)
	}
	return list.Items, nil
}

func decode(object *unstructured.Unstructured, into any) error {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// services looks up what the policies name. One that may not be read is taken
// to exist.
func (c *cluster) services(ctx context.Context, in *plan.Input) error {
	for _, ref := range plan.ServiceRefs(in.Policies) {
		object, err := c.client.Resource(serviceResource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			in.Services[ref] = plan.Service{}
			continue
		case err != nil:
			return fmt.Errorf("read the Service %s: %w", ref, err)
		}
		var service corev1.Service
		if err := decode(object, &service); err != nil {
			return fmt.Errorf("read the Service %s: %w", ref, err)
		}
		known := plan.Service{}
		for i := range service.Spec.Ports {
			known.Ports = append(known.Ports, service.Spec.Ports[i].Port)
		}
		in.Services[ref] = known
	}
	return nil
}

func (c *cluster) documents(ctx context.Context, in *plan.Input) error {
	list, err := c.client.Resource(configMapResource).Namespace(c.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.OperatorFieldManager,
	})
	if err != nil {
		return fmt.Errorf("list the documents of namespace %s: %w", c.namespace, err)
	}
	for i := range list.Items {
		labels, annotations := list.Items[i].GetLabels(), list.Items[i].GetAnnotations()
		since, err := time.Parse(time.RFC3339, annotations[plan.AnnotationSince])
		if err != nil {
			since = time.Time{}
		}
		in.Existing = append(in.Existing, plan.ExistingDocument{
			ConfigMap: list.Items[i].GetName(),
			Client:    labels[v1alpha1.LabelDocument],
			Revision:  annotations[v1alpha1.AnnotationRevision],
			Tombstone: annotations[plan.AnnotationTombstone] == "true",
			Since:     since,
		})
	}
	return nil
}

// reports lists those of live pods: the pod that a report is named after has the
// UID that the report is owned by, runs, and is not being deleted.
func (c *cluster) reports(ctx context.Context, in *observed) error {
	pods, err := c.list(ctx, podResource, "status.phase!=Succeeded", "status.phase!=Failed")
	if err != nil {
		return err
	}
	alive := map[string]*unstructured.Unstructured{}
	for i := range pods {
		if pods[i].GetDeletionTimestamp() == nil {
			alive[pods[i].GetName()] = &pods[i]
		}
	}
	reports, err := c.list(ctx, reportResource)
	if err != nil {
		return err
	}
	for i := range reports {
		pod := alive[reports[i].GetName()]
		if pod == nil || pod.GetUID() != plan.OwningPod(&reports[i]) {
			continue
		}
		var report v1alpha1.ClientReport
		if err := decode(&reports[i], &report); err == nil {
			report.CreationTimestamp.Time = plan.FirstSaid(report.CreationTimestamp.Time, pod.GetCreationTimestamp().Time)
			in.Reports = append(in.Reports, report)
			delete(alive, report.Name)
		}
	}
	in.silent = mountedBy(alive, in.Existing)
	return nil
}
