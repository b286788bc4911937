// Package offline judges TimeoutPolicy objects as an API server would, without
// one: by the schema of the CustomResourceDefinition, its CEL rules, and the
// admission policy that warns. It runs the API server's own code on the very
// manifests that are installed.
//
// A Judge is safe for concurrent use.
package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/config/admission"
	"github.com/timeout-operator/timeout-operator/config/crd"
)

// Fault is one reason why an API server refuses an object.
type Fault struct {
	// Field is the path in the object, such as spec.upstreams[0].timeouts.total.
	Field string `json:"field,omitempty"`
	// Message says what is wrong and how to mend it.
	Message string `json:"message"`
}

// Judge holds the compiled rules.
type Judge struct {
	schema  *structural.Structural
	openAPI validation.SchemaValidator
	rules   *cel.Validator
	warner  *warner
}

// NewJudge compiles the rules; that takes about a tenth of a second. It fails
// only when the manifests of this module are broken.
func NewJudge() (*Judge, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.TimeoutPolicies, &definition); err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinition: %w", err)
	}
	if len(definition.Spec.Versions) != 1 || definition.Spec.Versions[0].Schema == nil {
		return nil, fmt.Errorf("the CustomResourceDefinition %s has %d versions, one with a schema is known", definition.Name, len(definition.Spec.Versions))
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	schema, err := structural.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	warner, err := newWarner(admission.TimeoutPolicyWarnings)
	if err != nil {
		return nil, err
	}
	return &Judge{
		schema:  schema,
		openAPI: openAPI,
		rules:   cel.NewValidator(schema, true, celconfig.PerCallLimit),
		warner:  warner,
	}, nil
}

// Faults lists why an API server would refuse the object, with strict field
// validation: none if it would store it. The object stays as it is. Numbers
// have to be int64 or float64, as util/json of apimachinery reads them.
func (j *Judge) Faults(object map[string]any) []Fault {
	faults := j.unknown(object)
	object = runtime.DeepCopyJSON(object)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, j.schema)
	defaulting.Default(object, j.schema)
	errs := validation.ValidateCustomResource(nil, object, j.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.schema, object)...)
	if !slices.ContainsFunc(errs, blocksRules) {
		ruleErrs, _ := j.rules.Validate(context.Background(), nil, j.schema, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, ruleErrs...)
	}
	for _, err := range errs {
		// A remark about the object as a whole repeats one that has a place.
		if path := cleanPath(err.Field); path != "" || len(errs) == 1 {
			faults = append(faults, Fault{Field: path, Message: err.ErrorBody()})
		}
	}
	return faults
}

// blocksRules reports whether the API server looks at no CEL rule because of an
// error, since the object has not the shape that the rules take for granted.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// unknown lists the fields that are not in the schema.
func (j *Judge) unknown(object map[string]any) []Fault {
	var faults []Fault
	add := func(path string) {
		faults = append(faults, Fault{Field: cleanPath(path), Message: "is not a field here: check spelling and indentation, an API server without strict validation would drop it"})
	}
	var meta metav1.ObjectMeta
	if data, err := json.Marshal(object["metadata"]); err == nil {
		strict, err := kjson.UnmarshalStrict(data, &meta, kjson.DisallowUnknownFields)
		if err != nil {
			faults = append(faults, Fault{Field: "metadata", Message: err.Error()})
		}
		for _, err := range strict {
			var unknown kjson.FieldError
			if errors.As(err, &unknown) {
				add("metadata." + unknown.FieldPath())
			}
		}
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	paths := pruning.PruneWithOptions(runtime.DeepCopyJSON(object), j.schema, true, options)
	slices.Sort(paths)
	for _, path := range paths {
		add(path)
	}
	return faults
}

// cleanPath takes the marks of an empty root away.
func cleanPath(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "<nil>"), ".")
}
