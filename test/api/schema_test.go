package api

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// readCRD reads the generated definition of a resource.
func readCRD(t *testing.T, resource string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "config/crd/bases", "timeout-operator.dev_"+resource+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// newJudge returns the verdict of the API server's own code about a value at a
// place of the schema: a path of field names, "[]" for the items of a list.
func newJudge(t *testing.T, resource string, path ...string) func(value any) error {
	t.Helper()
	props := schemaAt(t, resource, path...)
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	rules := schemacel.NewValidator(structural, false, celconfig.PerCallLimit)
	return func(value any) error {
		errs := validation.ValidateCustomResource(field.NewPath("value"), value, validator)
		more, _ := rules.Validate(context.Background(), field.NewPath("value"), structural, value, nil, celconfig.RuntimeCELCostBudget)
		return append(errs, more...).ToAggregate()
	}
}

// dynamicConfig is a configuration for requests that are written by hand.
func dynamicConfig() *rest.Config {
	c := rest.CopyConfig(config)
	c.GroupVersion = &policiesVersion
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

var policiesVersion = policies.GroupVersion()

// schemaAt is the schema at a place.
func schemaAt(t *testing.T, resource string, path ...string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	props := readCRD(t, resource).Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		if name == "[]" {
			props = props.Items.Schema
			continue
		}
		next, ok := props.Properties[name]
		if !ok {
			t.Fatalf("the schema has no field %s in %v", name, path)
		}
		props = &next
	}
	return props
}
