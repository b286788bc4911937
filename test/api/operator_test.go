package api

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// TestTheOperatorAcceptsWhatTheSchemaAccepts: a policy that could be stored is
// never called invalid afterwards.
func TestTheOperatorAcceptsWhatTheSchemaAccepts(t *testing.T) {
	for _, test := range validPolicies() {
		t.Run(test.name, func(t *testing.T) {
			for _, fault := range plan.Validate(typed(t, policyFrom(test.spec)), plan.Options{}) {
				t.Errorf("the operator says %v", &fault)
			}
		})
	}
}

// harmless are faults that the schema refuses for clarity, and that the operator
// renders when it meets them in an object from before the rule: nothing in them
// can be misread. A word that no client knows is kept, and clients report it.
var harmless = map[string]bool{
	"an empty list of hosts":                  true,
	"a host twice in one upstream":            true,
	"a client twice":                          true,
	"an unknown retryable kind":               true,
	"a retryable kind in its metric spelling": true,
	"a retryable kind twice":                  true,
	"an unknown gRPC code":                    true,
	"the gRPC code OK":                        true,
	"an unknown trip kind":                    true,
	"a route without a match":                 true,
	"an empty path":                           true,
	"a path comparison without a path":        true,
	"a gRPC method with a dot":                true,
	"an empty list of methods":                true,
}

// TestTheOperatorRefusesWhatTheSchemaRefuses: an object that was stored before a
// rule existed is called invalid, and nothing of it is rendered.
func TestTheOperatorRefusesWhatTheSchemaRefuses(t *testing.T) {
	refused := 0
	for _, test := range invalidPolicies() {
		policy, readable := tryTyped(t, policyFrom(test.spec))
		if !readable || harmless[test.name] {
			continue
		}
		refused++
		t.Run(test.name, func(t *testing.T) {
			if len(plan.Validate(policy, plan.Options{})) == 0 {
				t.Error("the operator would render it")
			}
		})
	}
	if refused < 70 {
		t.Errorf("only %d objects were judged", refused)
	}
}

// tryTyped reads an object into the Go types; a value of another JSON type, which
// no version of the schema let in, cannot be.
func tryTyped(t *testing.T, o *unstructured.Unstructured) (*v1alpha1.TimeoutPolicy, bool) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.TimeoutPolicy{}
	return policy, json.Unmarshal(data, policy) == nil
}
