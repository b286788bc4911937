package offline_test

import (
	"slices"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/internal/offline"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := utiljson.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

const head = "apiVersion: timeout-operator.dev/v1alpha1\nkind: TimeoutPolicy\n"

// The words are those of the API server; test/api holds all of them against it.
func TestFaultsHaveFieldAndMend(t *testing.T) {
	judge, err := offline.NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, text, field, message string }{
		{"schema", "metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], timeouts: {total: 600}}]}", "spec.upstreams[0].timeouts.total", "must be of type string"},
		{"rule", "metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: 2s}}]}", "spec.upstreams[0].timeouts.attempt", "shorten attempt or raise total"},
		{"list", "metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a]}, {name: a, hosts: [b]}]}", "spec.upstreams[1]", "Duplicate value"},
		{"unknown field", "metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], timeout: {}}]}", "spec.upstreams[0].timeout", "is not a field here"},
		{"unknown field of the metadata", "metadata: {name: x, label: {}}\nspec: {upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]}", "metadata.label", "is not a field here"},
		{"metadata of another shape", "metadata: {name: x, labels: [a]}\nspec: {upstreams: [{name: a, hosts: [a], timeouts: {total: 1s}}]}", "metadata", "cannot unmarshal array"},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults := judge.Faults(object(t, head+test.text))
			if !slices.ContainsFunc(faults, func(f offline.Fault) bool {
				return f.Field == test.field && strings.Contains(f.Message, test.message)
			}) {
				t.Errorf("want %s: …%s…, got %+v", test.field, test.message, faults)
			}
		})
	}
}

func TestAGoodPolicyHasNeitherFaultsNorWarningsAndStaysAsItIs(t *testing.T) {
	judge, err := offline.NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	const text = head + "metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], timeouts: {total: 1s, attempt: null}}]}"
	o := object(t, text)
	if faults, warnings := judge.Faults(o), judge.Warnings(o); len(faults)+len(warnings) > 0 {
		t.Errorf("got %v, %v", faults, warnings)
	}
	before, _ := utiljson.Marshal(object(t, text))
	if after, _ := utiljson.Marshal(o); string(after) != string(before) {
		t.Errorf("the object was changed:\n%s\n%s", before, after)
	}
}

func TestDoubtfulPoliciesAreWarnedOf(t *testing.T) {
	judge, err := offline.NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	warnings := judge.Warnings(object(t, head+"metadata: {name: x}\nspec: {upstreams: [{name: a, hosts: [a], retry: {maxAttempts: 3}}]}"))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "retry without timeouts.total (upstream a)") {
		t.Errorf("got %q", warnings)
	}
}

func TestAnObjectThatCannotBeJudgedHasNoWarnings(t *testing.T) {
	judge, err := offline.NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	if warnings := judge.Warnings(object(t, head+"spec: {upstreams: 7}")); len(warnings) > 0 {
		t.Errorf("got %q", warnings)
	}
}
