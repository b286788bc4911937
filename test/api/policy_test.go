package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

var dryRun = []string{metav1.DryRunAll}

// policyFrom makes a policy of a spec in YAML.
func policyFrom(spec string) *unstructured.Unstructured {
	var s any
	if err := yaml.Unmarshal([]byte(spec), &s); err != nil {
		panic(fmt.Sprintf("the spec of a test is no YAML: %v\n%s", err, spec))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "TimeoutPolicy",
		"metadata":   map[string]any{"name": "checkout", "namespace": "default"},
		"spec":       s,
	}}
}

// upstreamWith makes a policy of the rules of one upstream in YAML.
func upstreamWith(rules string) string {
	return "upstreams:\n- name: orders\n  hosts: [orders.example.com]\n" + indent(rules)
}

func indent(text string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

// decodeAll reads the objects of a YAML file.
func decodeAll(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// warningRecorder keeps the warnings of the API server.
type warningRecorder struct {
	mu   sync.Mutex
	text []string
}

func (r *warningRecorder) HandleWarningHeader(_ int, _ string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, text)
}

// tryPolicy sends a policy through validation and admission without storing it,
// and returns the warnings.
func tryPolicy(ctx context.Context, policy *unstructured.Unstructured) ([]string, error) {
	recorder := &warningRecorder{}
	c := rest.CopyConfig(config)
	c.WarningHandler = recorder
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	_, err = client.Resource(policies).Namespace("default").Create(ctx, policy, metav1.CreateOptions{
		DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict,
	})
	return recorder.text, err
}

// faults lists what an Invalid error complains of, each as "field: message",
// without the remarks about the object as a whole (that some rules were not
// looked at, for instance).
func faults(t *testing.T, err error) []string {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("want the object refused as invalid, got %v", err)
	}
	var list []string
	for _, c := range status.ErrStatus.Details.Causes {
		if c.Field != "<nil>" {
			list = append(list, c.Field+": "+c.Message)
		}
	}
	return list
}

// wantFault asserts that an object is refused for one reason, at one place.
func wantFault(t *testing.T, err error, field, message string) {
	t.Helper()
	list := faults(t, err)
	if len(list) != 1 || !strings.HasPrefix(list[0], field+": ") || !strings.Contains(list[0], message) {
		t.Errorf("want one fault at %s that says %q, got:\n%s", field, message, strings.Join(list, "\n"))
	}
}
