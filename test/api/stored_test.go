package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// oldGroup has a copy of the definition that begins without rules, so that the
// other tests keep theirs.
const oldGroup = "old.timeout-operator.dev"

// storedBefore is what was stored before there were rules.
var storedBefore = []struct {
	name, spec string
	// bad changes the bad field to another bad value, mend to a good one.
	bad, mend string
	field     string
	// wholeSpec says that the broken rule looks at the spec as a whole, so that
	// no change of the spec passes that leaves it broken.
	wholeSpec bool
}{
	{name: "duration", field: "spec.upstreams[0].timeouts.total",
		spec: "upstreams: [{name: a, hosts: [a], timeouts: {total: 1d}}]",
		bad:  "upstreams: [{name: a, hosts: [a], timeouts: {total: 1mm}}]",
		mend: "upstreams: [{name: a, hosts: [a], timeouts: {total: 24h}}]"},
	{name: "overflow", field: "spec.upstreams[0].timeouts.total",
		spec: "upstreams: [{name: a, hosts: [a], timeouts: {total: 9999999h}}]",
		bad:  "upstreams: [{name: a, hosts: [a], timeouts: {total: 2562047h48m}}]",
		mend: "upstreams: [{name: a, hosts: [a], timeouts: {total: 99999h}}]"},
	{name: "attempts", field: "spec.upstreams[0].retry.maxAttempts",
		spec: "upstreams: [{name: a, hosts: [a], retry: {maxAttempts: 0}}]",
		bad:  "upstreams: [{name: a, hosts: [a], retry: {maxAttempts: -1}}]",
		mend: "upstreams: [{name: a, hosts: [a], retry: {maxAttempts: 1}}]"},
	{name: "kind", field: "spec.upstreams[0].retry.retryableKinds[0]",
		spec: "upstreams: [{name: a, hosts: [a], retry: {retryableKinds: [5xxx]}}]",
		bad:  "upstreams: [{name: a, hosts: [a], retry: {retryableKinds: [6xxx]}}]",
		mend: "upstreams: [{name: a, hosts: [a], retry: {retryableKinds: [ReadTimeout]}}]"},
	{name: "limits", field: "spec.upstreams[0].timeouts.attempt",
		spec: "upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 2s}}]",
		bad:  "upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 3s}}]",
		mend: "upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 1s}}]"},
	{name: "host-twice", field: "spec.upstreams",
		spec: "upstreams: [{name: a, hosts: [a]}, {name: b, hosts: [a]}]",
		bad:  "upstreams: [{name: a, hosts: [b]}, {name: b, hosts: [b]}]",
		mend: "upstreams: [{name: a, hosts: [a]}, {name: b, hosts: [b]}]"},
	{name: "host", field: "spec.upstreams[0].hosts[0]",
		spec: "upstreams: [{name: a, hosts: ['http://a']}]",
		bad:  "upstreams: [{name: a, hosts: ['http://b']}]",
		mend: "upstreams: [{name: a, hosts: [a]}]"},
	{name: "levels", field: "spec.upstreams", wholeSpec: true,
		spec: "{defaults: {timeouts: {attempt: 2s}}, upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]}",
		bad:  "{defaults: {timeouts: {attempt: 3s}}, upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]}",
		mend: "{defaults: {timeouts: {attempt: 1s}}, upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]}"},
}

// TestObjectsFromBeforeARuleStayWritable stores objects while there are no
// rules, brings the rules in, and goes on: status, metadata and other fields can
// be written, the bad field only to something good, and the Go types read it all.
//
// Case A31.
func TestObjectsFromBeforeARuleStayWritable(t *testing.T) {
	ctx := t.Context()
	crd := installOldDefinition(t)
	client := cluster.Resource(schema.GroupVersionResource{Group: oldGroup, Version: "v1alpha1", Resource: "timeoutpolicies"}).Namespace("default")
	for _, test := range storedBefore {
		if _, err := client.Create(ctx, oldPolicy(test.name, test.spec), metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
	}
	tighten(t, client, crd)

	t.Run("the Go types read every object", func(t *testing.T) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var typedList v1alpha1.TimeoutPolicyList
		if err := json.Unmarshal(data, &typedList); err != nil {
			t.Fatalf("one bad object hides the others: %v", err)
		}
		if len(typedList.Items) != len(storedBefore) {
			t.Fatalf("want %d objects, got %d", len(storedBefore), len(typedList.Items))
		}
		for _, p := range typedList.Items {
			if p.Name == "duration" {
				if _, err := p.Spec.Upstreams[0].Timeouts.Total.Parse(); err == nil || *p.Spec.Upstreams[0].Timeouts.Total != "1d" {
					t.Errorf("want the text kept and refused on use, got %q and %v", *p.Spec.Upstreams[0].Timeouts.Total, err)
				}
			}
		}
	})
	for _, test := range storedBefore {
		t.Run(test.name, func(t *testing.T) {
			o := get(t, client, test.name)
			o.Object["status"] = map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{
				"type": v1alpha1.ConditionAccepted, "status": "False", "reason": v1alpha1.ReasonInvalid, "message": "m",
				"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": int64(1)}}}
			if _, err := client.UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil {
				t.Errorf("the status cannot be written: %v", err)
			}
			o = get(t, client, test.name)
			o.SetLabels(map[string]string{"team": "shop"})
			if _, err := client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
				t.Errorf("the metadata cannot be written: %v", err)
			}
			o = get(t, client, test.name)
			o.Object["spec"].(map[string]any)["mode"] = "Shadow"
			_, err := client.Update(ctx, o, metav1.UpdateOptions{})
			if test.wholeSpec {
				wantFault(t, err, test.field, "attempt must not be longer than total")
			} else if err != nil {
				t.Errorf("another field cannot be written: %v", err)
			}
			wantFault(t, updateSpec(t, client, test.name, test.bad), test.field, "")
			if err := updateSpec(t, client, test.name, test.mend); err != nil {
				t.Errorf("the bad field cannot be mended: %v", err)
			}
			wantFault(t, updateSpec(t, client, test.name, test.spec), test.field, "")
		})
	}
}

func oldPolicy(name, spec string) *unstructured.Unstructured {
	p := policyFrom(spec)
	p.SetAPIVersion(oldGroup + "/v1alpha1")
	p.SetName(name)
	return p
}

func get(t *testing.T, client dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func updateSpec(t *testing.T, client dynamic.ResourceInterface, name, spec string) error {
	t.Helper()
	o := get(t, client, name)
	o.Object["spec"] = oldPolicy(name, spec).Object["spec"]
	_, err := client.Update(t.Context(), o, metav1.UpdateOptions{})
	return err
}

// installOldDefinition creates the copy without rules and returns the one with
// them.
func installOldDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	strict := readCRD(t, "timeoutpolicies")
	strict.Name = "timeoutpolicies." + oldGroup
	strict.Spec.Group = oldGroup
	strict.Spec.Names.ShortNames, strict.Spec.Names.Categories = nil, nil
	lax := strict.DeepCopy()
	loosen(lax.Spec.Versions[0].Schema.OpenAPIV3Schema)

	client, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CustomResourceDefinitions().Create(t.Context(), lax, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CustomResourceDefinitions().Delete(context.WithoutCancel(t.Context()), lax.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	await(t, "the definition is served", func(ctx context.Context) (bool, error) {
		_, err := cluster.Resource(schema.GroupVersionResource{Group: oldGroup, Version: "v1alpha1", Resource: "timeoutpolicies"}).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	return strict
}

// loosen takes every rule away and leaves the types.
func loosen(p *apiextensionsv1.JSONSchemaProps) {
	p.Pattern, p.Enum, p.XValidations = "", nil, nil
	p.MinLength, p.MaxLength, p.MinItems, p.MaxItems, p.Minimum, p.Maximum = nil, nil, nil, nil, nil, nil
	for name, child := range p.Properties {
		loosen(&child)
		p.Properties[name] = child
	}
	if p.Items != nil {
		loosen(p.Items.Schema)
	}
}

// tighten brings the rules in and waits until they hold.
func tighten(t *testing.T, policies dynamic.ResourceInterface, strict *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	client, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	current, err := client.CustomResourceDefinitions().Get(t.Context(), strict.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current.Spec = strict.Spec
	if _, err := client.CustomResourceDefinitions().Update(t.Context(), current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the rules hold", func(ctx context.Context) (bool, error) {
		_, err := policies.Create(ctx, oldPolicy("probe", storedBefore[0].spec), metav1.CreateOptions{DryRun: dryRun})
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
			return false, err
		}
		return err != nil && strings.Contains(err.Error(), "should match"), nil
	})
}

// await polls for a state that the API server reaches by itself.
func await(t *testing.T, what string, done wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, done); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
