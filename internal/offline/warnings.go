package offline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

var (
	kind     = v1alpha1.GroupVersion.WithKind("TimeoutPolicy")
	resource = v1alpha1.GroupVersion.WithResource("timeoutpolicies")
)

// warner evaluates a ValidatingAdmissionPolicy whose action is Warn.
type warner struct {
	compiler   *plugin.CompositedCompiler
	conditions plugin.ConditionEvaluator
	messages   plugin.ConditionEvaluator
}

// expression is one of a policy, with the type that it has to have.
type expression struct {
	name, text string
	result     *cel.Type
}

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.result} }

// newWarner compiles the first document of a manifest.
func newWarner(manifest []byte) (*warner, error) {
	first, _, _ := strings.Cut(string(manifest), "\n---\n")
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	if err := yaml.UnmarshalStrict([]byte(first), &policy); err != nil {
		return nil, fmt.Errorf("read the admission policy: %w", err)
	}
	compiler, err := plugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	for _, v := range policy.Spec.Variables {
		result := compiler.CompileAndStoreVariable(expression{name: v.Name, text: v.Expression, result: cel.AnyType}, plugin.OptionalVariableDeclarations{}, environment.StoredExpressions)
		if result.Error != nil {
			return nil, fmt.Errorf("compile the variable %s of the admission policy: %w", v.Name, result.Error)
		}
	}
	var conditions, messages []plugin.ExpressionAccessor
	for _, v := range policy.Spec.Validations {
		conditions = append(conditions, expression{text: v.Expression, result: cel.BoolType})
		messages = append(messages, expression{text: v.MessageExpression, result: cel.StringType})
	}
	w := &warner{
		compiler:   compiler,
		conditions: compiler.CompileCondition(conditions, plugin.OptionalVariableDeclarations{}, environment.StoredExpressions),
		messages:   compiler.CompileCondition(messages, plugin.OptionalVariableDeclarations{}, environment.StoredExpressions),
	}
	if err := errors.Join(append(w.conditions.CompilationErrors(), w.messages.CompilationErrors()...)...); err != nil {
		return nil, fmt.Errorf("compile the admission policy: %w", err)
	}
	return w, nil
}

// Warnings lists what is legal but doubtful about an object without faults, in
// the words that kubectl shows. An object that cannot be judged has none.
func (j *Judge) Warnings(object map[string]any) []string {
	w := j.warner
	versioned := &admission.VersionedAttributes{
		Attributes:      admission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, nil, kind, "", "", resource, "", admission.Create, nil, false, nil),
		VersionedKind:   kind,
		VersionedObject: admission.NewLazyObject(&unstructured.Unstructured{Object: object}),
	}
	request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
	evaluate := func(e plugin.ConditionEvaluator) []plugin.EvaluationResult {
		ctx := w.compiler.CreateContext(context.Background())
		results, _, err := e.ForInput(ctx, versioned, request, plugin.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil
		}
		return results
	}
	conditions := evaluate(w.conditions)
	var messages []plugin.EvaluationResult
	var warnings []string
	for i, c := range conditions {
		if c.Error != nil || c.EvalResult == nil || c.EvalResult.Value() != false {
			continue
		}
		if messages == nil {
			messages = evaluate(w.messages)
		}
		if i < len(messages) && messages[i].Error == nil {
			if text, ok := messages[i].EvalResult.Value().(string); ok {
				warnings = append(warnings, text)
			}
		}
	}
	return warnings
}
