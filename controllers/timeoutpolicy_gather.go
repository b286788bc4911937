package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// facts are what the cluster says about one namespace. Objects in it may belong
// to the cache: they are read and never changed.
type facts struct {
	namespace string
	now       time.Time
	policies  []v1alpha1.TimeoutPolicy
	// names of the policies.
	names map[string]bool
	// faults says, by name, why the spec of a policy cannot be read.
	faults   map[string]string
	services map[types.NamespacedName]plan.Service
	// documents by name of their ConfigMap, foreign ones included as far as
	// they are known.
	documents map[string]storedDocument
	// voices are the counted reports of live pods, and reports their number by
	// state, those without a live pod included.
	voices  []plan.Voice
	reports map[string]int
}

// storedDocument is a rendered ConfigMap as it is stored, without the document.
type storedDocument struct {
	uid                 types.UID
	resourceVersion     string
	created             time.Time
	labels, annotations map[string]string
	// digest of the document; empty when the key is missing.
	digest string
	// policies are the names of those that the document was made from.
	policies []string
	// foreign says that the ConfigMap is not the operator's.
	foreign bool
}

// gather reads a namespace from the cache.
func (r *TimeoutPolicyReconciler) gather(ctx context.Context, namespace string) (*facts, error) {
	f := &facts{
		namespace: namespace,
		now:       r.Now(),
		names:     map[string]bool{},
		faults:    map[string]string{},
		services:  map[types.NamespacedName]plan.Service{},
		documents: map[string]storedDocument{},
	}
	if err := r.catchUp(ctx, namespace); err != nil {
		return nil, err
	}
	var policies storedPolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list the policies of namespace %s: %w", namespace, err)
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if policy.DeletionTimestamp != nil {
			continue
		}
		f.policies = append(f.policies, policy.TimeoutPolicy)
		f.names[policy.Name] = true
		if policy.fault != "" {
			f.faults[policy.Name] = policy.fault
		}
	}
	var configMaps corev1.ConfigMapList
	if err := r.Client.List(ctx, &configMaps, client.InNamespace(namespace), client.MatchingLabels(managedBy()), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list the documents of namespace %s: %w", namespace, err)
	}
	for i := range configMaps.Items {
		f.documents[configMaps.Items[i].Name] = newStoredDocument(&configMaps.Items[i])
	}
	if err := r.gatherServices(ctx, f); err != nil {
		return nil, err
	}
	if !r.Options.ReportingDisabled {
		f.voices, f.reports = r.counts.read(namespace, f.now, r.Options)
	}
	return f, nil
}

// gatherServices looks up the Services that the policies name.
func (r *TimeoutPolicyReconciler) gatherServices(ctx context.Context, f *facts) error {
	for _, ref := range plan.ServiceRefs(f.policies) {
		if !r.watches(ref.Namespace) {
			// It cannot be seen, so nothing can be said against it.
			f.services[ref] = plan.Service{}
			continue
		}
		var service corev1.Service
		err := r.Client.Get(ctx, ref, &service, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the service %s: %w", ref, err)
		}
		ports := make([]int32, 0, len(service.Spec.Ports))
		for i := range service.Spec.Ports {
			ports = append(ports, service.Spec.Ports[i].Port)
		}
		f.services[ref] = plan.Service{Ports: ports}
	}
	return nil
}

// plan has the facts planned. Names that the plan needs and the cache does not
// have may be taken by ConfigMaps without our label, which are not cached: those
// are looked up, and where there is one the plan is made again with it.
func (r *TimeoutPolicyReconciler) plan(ctx context.Context, f *facts) (plan.Output, error) {
	out := plan.Plan(f.input(r.Options, r.memos.of(f)))
	found := false
	for i := range out.Documents {
		name := out.Documents[i].ConfigMap
		if _, known := f.documents[name]; known {
			continue
		}
		var configMap corev1.ConfigMap
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: name}, &configMap)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return plan.Output{}, fmt.Errorf("read the ConfigMap %s/%s: %w", f.namespace, name, err)
		}
		f.documents[name] = newStoredDocument(&configMap)
		found = true
	}
	if found {
		out = plan.Plan(f.input(r.Options, r.memos.of(f)))
	}
	return out, nil
}

func newStoredDocument(configMap *corev1.ConfigMap) storedDocument {
	summary := summaryOf(configMap)
	document := storedDocument{
		uid:             configMap.UID,
		resourceVersion: configMap.ResourceVersion,
		created:         configMap.CreationTimestamp.Time,
		labels:          configMap.Labels,
		annotations:     configMap.Annotations,
		digest:          summary[summaryDigest],
		foreign:         configMap.Labels[v1alpha1.LabelManagedBy] != v1alpha1.OperatorFieldManager,
	}
	if policies := summary[summaryPolicies]; policies != "" {
		document.policies = strings.Split(policies, ",")
	}
	return document
}

// input puts the facts into the planner's words.
func (f *facts) input(options plan.Options, memo *plan.Memo) plan.Input {
	in := plan.Input{
		Namespace: f.namespace,
		Policies:  f.policies,
		Faults:    f.faults,
		Services:  f.services,
		Voices:    f.voices,
		Memo:      memo,
		Options:   options,
		Now:       f.now,
	}
	for name, document := range f.documents {
		since, err := time.Parse(time.RFC3339, document.annotations[plan.AnnotationSince])
		if err != nil {
			since = time.Time{}
		}
		in.Existing = append(in.Existing, plan.ExistingDocument{
			ConfigMap: name,
			Foreign:   document.foreign,
			Client:    document.labels[v1alpha1.LabelDocument],
			Revision:  document.annotations[v1alpha1.AnnotationRevision],
			Tombstone: document.annotations[plan.AnnotationTombstone] == "true",
			Since:     since,
		})
	}
	return in
}

// retryForeign is how soon to look again at the ConfigMaps that are somebody
// else's; 0 when there are none.
func (f *facts) retryForeign() time.Duration {
	for _, document := range f.documents {
		if document.foreign {
			return foreignRetry
		}
	}
	return 0
}

// watches reports whether a namespace is among those that are cached.
func (r *TimeoutPolicyReconciler) watches(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace)
}
