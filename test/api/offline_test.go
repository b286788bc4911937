package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/timeout-operator/timeout-operator/internal/offline"
)

// TestPoliciesAreJudgedTheSameWithoutAnAPIServer holds what kubectl timeouts
// validate says against the API server, object by object: the same faults, in
// the same words, and the same warnings.
func TestPoliciesAreJudgedTheSameWithoutAnAPIServer(t *testing.T) {
	judge, err := offline.NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]string{"everything": everything}
	for _, p := range invalidPolicies() {
		specs["invalid: "+p.name] = p.spec
	}
	for _, p := range validPolicies() {
		specs["valid: "+p.name] = p.spec
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			policy := policyFrom(spec)
			warnings, err := tryPolicy(t.Context(), policy)
			var want []string
			if err != nil {
				want = faults(t, err)
			}
			object := asRead(t, policy)
			var got []string
			for _, f := range judge.Faults(object) {
				got = append(got, f.Field+": "+f.Message)
			}
			compare(t, "faults", want, got)
			if len(want) == 0 {
				for i, w := range warnings {
					_, warnings[i], _ = strings.Cut(w, "with binding 'timeout-operator-warnings': ")
				}
				compare(t, "warnings", warnings, judge.Warnings(object))
			}
		})
	}
}

// asRead is the object with the number types that a reader of files gives it.
func asRead(t *testing.T, policy *unstructured.Unstructured) map[string]any {
	t.Helper()
	data, err := json.Marshal(policy.Object)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func compare(t *testing.T, what string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%s: the API server says\n%s\nwithout one it is\n%s", what, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
