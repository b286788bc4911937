// Package oldest holds the manifests against the oldest Kubernetes that is
// supported, with the code of that version's API server: its cost estimates,
// its CEL functions, its verdicts. The module stands outside of the workspace,
// since the versions of the libraries would not get along.
package oldest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

const config = "../../config"

func readCRD(t *testing.T, resource string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(config, "crd/bases/timeout-operator.dev_"+resource+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		t.Fatal(err)
	}
	internal.Status.StoredVersions = []string{"v1alpha1"}
	return internal
}

// TestDefinitionsInstall: the rules compile, and their estimated cost is within
// the budget with every list at its bound.
//
// Case A30.
func TestDefinitionsInstall(t *testing.T) {
	for _, resource := range []string{"timeoutpolicies", "clientreports"} {
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), readCRD(t, resource)) {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

// judge returns what that version says of a spec.
func judge(t *testing.T) func(object map[string]any) []string {
	t.Helper()
	crd := readCRD(t, "timeoutpolicies")
	props := crd.Spec.Validation
	if props == nil {
		props = crd.Spec.Versions[0].Schema
	}
	structural, err := schema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	rules := schemacel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(object map[string]any) []string {
		errs := validation.ValidateCustomResource(nil, object, validator)
		more, _ := rules.Validate(context.Background(), field.NewPath(""), structural, object, nil, celconfig.RuntimeCELCostBudget)
		var faults []string
		for _, e := range append(errs, more...) {
			faults = append(faults, e.Error())
		}
		return faults
	}
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(asJSON, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSamplesAreValid(t *testing.T) {
	verdict := judge(t)
	files, err := filepath.Glob(filepath.Join(config, "samples/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			if object := decode(t, document); object["kind"] == "TimeoutPolicy" {
				for _, fault := range verdict(object) {
					t.Errorf("%s: %s", file, fault)
				}
			}
		}
	}
}

// TestRulesRefuseWhatTheyShould: one object for each way of writing a rule.
func TestRulesRefuseWhatTheyShould(t *testing.T) {
	verdict := judge(t)
	for _, test := range []struct{ spec, want string }{
		{"upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 2s}}]", "spec.upstreams[0].timeouts.attempt: Invalid value: \"object\": attempt must not be longer than total"},
		{"upstreams: [{name: a, hosts: [a], timeouts: {total: 99999h1ms}}]", "the longest duration is 99999h"},
		{"upstreams: [{name: a, hosts: ['http://a']}]", "this is no host pattern"},
		{"upstreams: [{name: a, hosts: ['[1:2:3:4::5:6:7:8]']}]", "this is no host pattern"},
		{"upstreams: [{name: a, hosts: ['*.10.0.0.1']}]", "an address cannot have a wildcard"},
		{"upstreams: [{name: a, hosts: [a]}, {name: b, hosts: [a]}]", "a host belongs to one upstream of a policy"},
		{"upstreams: [{name: a, service: {name: a, namespace: b}}, {name: b, service: {name: a, namespace: b}}]", "a service belongs to one upstream of a policy"},
		{"defaults: {timeouts: {attempt: 2s}}\nupstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]", "in an upstream, together with what it inherits from defaults"},
		{"upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}, routes: [{name: r, match: {path: /r}, timeouts: {attempt: 2s}}]}]", "in a route, together with what it inherits from the upstream"},
		{"upstreams: [{name: a, hosts: [a], routes: [{name: r, match: {path: /r}}, {name: s, match: {path: /r}}]}]", "two routes select the same calls"},
		{"upstreams: [{name: a, hosts: [a], retry: {maxAttempts: 0}}]", "maxAttempts counts the first request too"},
		{"upstreams: [{name: a, hosts: [a], circuitBreaker: {recovery: 0s}}]", "recovery must be longer than 0s"},
	} {
		object := decode(t, []byte("apiVersion: timeout-operator.dev/v1alpha1\nkind: TimeoutPolicy\nmetadata: {name: a}\nspec:\n  "+strings.ReplaceAll(test.spec, "\n", "\n  ")))
		if faults := verdict(object); len(faults) != 1 || !strings.Contains(faults[0], test.want) {
			t.Errorf("%s\nwant one fault that says %q, got %v", test.spec, test.want, faults)
		}
	}
}

// expression is one of an admission policy.
type expression struct {
	name, text string
	result     *cel.Type
}

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.result} }

// TestAdmissionPoliciesCompile, in the way that the API server does when one is
// created.
func TestAdmissionPoliciesCompile(t *testing.T) {
	for _, name := range []string{"clientreport_identity.yaml", "timeoutpolicy_warnings.yaml"} {
		t.Run(name, func(t *testing.T) {
			policy := readAdmissionPolicy(t, name)
			compiler, err := plugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true))
			if err != nil {
				t.Fatal(err)
			}
			compiled := 0
			check := func(text string, result *cel.Type) {
				compiled++
				if r := compiler.CompileCELExpression(expression{text: text, result: result}, plugin.OptionalVariableDeclarations{}, environment.NewExpressions); r.Error != nil {
					t.Errorf("%s\n%v", text, r.Error)
				}
			}
			for _, c := range policy.Spec.MatchConditions {
				check(c.Expression, cel.BoolType)
			}
			for _, v := range policy.Spec.Variables {
				r := compiler.CompileAndStoreVariable(expression{name: v.Name, text: v.Expression, result: cel.AnyType}, plugin.OptionalVariableDeclarations{}, environment.NewExpressions)
				if r.Error != nil {
					t.Errorf("%s: %v", v.Name, r.Error)
				}
			}
			for _, v := range policy.Spec.Validations {
				check(v.Expression, cel.BoolType)
				if v.MessageExpression != "" {
					check(v.MessageExpression, cel.StringType)
				}
			}
			if compiled < 5 {
				t.Errorf("only %d expressions were found", compiled)
			}
		})
	}
}

func readAdmissionPolicy(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(config, "admission", name))
	if err != nil {
		t.Fatal(err)
	}
	reader := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), math.MaxInt16)
	for {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		switch err := reader.Decode(policy); {
		case errors.Is(err, io.EOF):
			t.Fatalf("%s has no admission policy", name)
		case err != nil:
			t.Fatal(err)
		case policy.Kind == "ValidatingAdmissionPolicy":
			return policy
		}
	}
}
