package api

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sample is an object that people are shown.
type sample struct {
	source string
	object *unstructured.Unstructured
}

func samples(t *testing.T) []sample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config/samples/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	var all []sample
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decodeSamples(t, filepath.Base(file), data)...)
	}
	return all
}

func decodeSamples(t *testing.T, source string, data []byte) []sample {
	t.Helper()
	objects, err := decodeAll(data)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	var all []sample
	for _, o := range objects {
		if o.GetKind() == "TimeoutPolicy" {
			all = append(all, sample{source, o})
		}
	}
	return all
}

// page reads a page of the specification, and the examples on it.
func page(t *testing.T, name string) (text string, examples []sample) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/spec/v1alpha1", name))
	if err != nil {
		t.Fatal(err)
	}
	text = string(data)
	for i, block := range strings.Split(text, "```yaml\n")[1:] {
		example, _, ok := strings.Cut(block, "\n```")
		if !ok {
			t.Fatalf("example %d on %s has no end", i, name)
		}
		examples = append(examples, decodeSamples(t, name, []byte(example))...)
	}
	return text, examples
}

// TestSamplesApplyWithoutAWarning: what people copy is beyond doubt.
func TestSamplesApplyWithoutAWarning(t *testing.T) {
	_, examples := page(t, "timeoutpolicy.md")
	for _, s := range append(samples(t), examples...) {
		t.Run(s.source+"/"+s.object.GetName(), func(t *testing.T) {
			o := s.object.DeepCopy()
			o.SetNamespace("default")
			warnings, err := tryPolicy(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			for _, w := range warnings {
				t.Errorf("warned of: %s", w)
			}
		})
	}
}

// TestEveryFieldHasASample: no field is without something to copy.
func TestEveryFieldHasASample(t *testing.T) {
	shown := map[string]bool{}
	for _, s := range samples(t) {
		for _, path := range pathsOf("", s.object.Object["spec"]) {
			shown[rulesPath(path)] = true
		}
	}
	for _, path := range schemaPaths(t, "timeoutpolicies", "spec", "") {
		if !shown[path] {
			t.Errorf("no sample has %s", path)
		}
	}
}

// schemaPaths lists the leaf fields of a part of the schema once, whatever the
// level that they stand at. Paths begin with the prefix.
func schemaPaths(t *testing.T, resource, part, prefix string) []string {
	t.Helper()
	var paths []string
	var walk func(path string, p apiextensionsv1.JSONSchemaProps)
	walk = func(path string, p apiextensionsv1.JSONSchemaProps) {
		switch {
		case len(p.Properties) > 0:
			for name, child := range p.Properties {
				walk(join(path, name), child)
			}
		case p.Items != nil && len(p.Items.Schema.Properties) > 0:
			walk(path+"[]", *p.Items.Schema)
		default:
			paths = append(paths, rulesPath(path))
		}
	}
	schema := readCRD(t, resource).Spec.Versions[0].Schema.OpenAPIV3Schema
	walk(prefix, schema.Properties[part])
	slices.Sort(paths)
	return slices.Compact(paths)
}

// pathsOf lists the leaf fields of a value in the same form.
func pathsOf(path string, v any) []string {
	var paths []string
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			paths = append(paths, pathsOf(join(path, name), child)...)
		}
	case []any:
		if len(v) > 0 {
			if _, object := v[0].(map[string]any); object {
				for _, child := range v {
					paths = append(paths, pathsOf(path+"[]", child)...)
				}
				return paths
			}
		}
		paths = append(paths, path)
	default:
		paths = append(paths, path)
	}
	return paths
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// rulesPath takes the level away from the path of a rule: the rules are the same
// in defaults, upstreams and routes.
func rulesPath(path string) string {
	for _, level := range []string{"defaults.", "upstreams[].routes[].", "upstreams[]."} {
		for _, block := range []string{"timeouts.", "retry.", "deadline.", "circuitBreaker."} {
			if strings.HasPrefix(path, level+block) {
				return strings.TrimPrefix(path, level)
			}
		}
	}
	return path
}
