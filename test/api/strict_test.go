package api

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// misplaced has a key at a wrong level in each row.
var misplaced = []struct{ name, spec, field string }{
	{"timeouts beside upstreams", "timeouts: {total: 1s}\nupstreams: [{name: a, hosts: [a]}]", "spec.timeouts"},
	{"a breaker beside upstreams", "circuitBreaker: {failures: 5}\nupstreams: [{name: a, hosts: [a]}]", "spec.circuitBreaker"},
	{"a total beside timeouts", "upstreams: [{name: a, hosts: [a], total: 1s}]", "spec.upstreams[0].total"},
	{"maxAttempts beside retry", "upstreams: [{name: a, hosts: [a], maxAttempts: 3}]", "spec.upstreams[0].maxAttempts"},
	{"jitter beside backoff", "upstreams: [{name: a, hosts: [a], retry: {jitter: Full}}]", "spec.upstreams[0].retry.jitter"},
	{"a path beside match", "upstreams: [{name: a, hosts: [a], routes: [{name: r, match: {}, path: /r}]}]", "spec.upstreams[0].routes[0].path"},
	{"a mode in an upstream", "upstreams: [{name: a, hosts: [a], mode: Shadow}]", "spec.upstreams[0].mode"},
	{"a key in another case", "upstreams: [{name: a, hosts: [a], timeouts: {Total: 1s}}]", "spec.upstreams[0].timeouts.Total"},
	{"a field of another project", "upstreams: [{name: a, hosts: [a], retry: {perTryTimeout: 1s}}]", "spec.upstreams[0].retry.perTryTimeout"},
	{"upstreams inside defaults", "defaults: {upstreams: []}\nupstreams: [{name: a, hosts: [a]}]", "spec.defaults.upstreams"},
}

// TestMisplacedKeysAreRefusedByStrictValidation is what kubectl asks for: a key
// that the schema does not know is refused by its path, never dropped.
//
// Case A26.
func TestMisplacedKeysAreRefusedByStrictValidation(t *testing.T) {
	for _, test := range misplaced {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryPolicy(t.Context(), policyFrom(test.spec))
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "`+test.field+`"`) {
				t.Errorf("want the unknown field %s refused, got %v", test.field, err)
			}
		})
	}
}

// TestMisplacedKeysAreWarnedOfByDefault is what other clients get: the key is
// dropped, and the API server says so.
//
// Case A26.
func TestMisplacedKeysAreWarnedOfByDefault(t *testing.T) {
	for _, test := range misplaced {
		t.Run(test.name, func(t *testing.T) {
			recorder := &warningRecorder{}
			c := rest.CopyConfig(config)
			c.WarningHandler = recorder
			client, err := dynamic.NewForConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := client.Resource(policies).Namespace("default").Create(t.Context(), policyFrom(test.spec), metav1.CreateOptions{DryRun: dryRun})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(recorder.text, "\n"), `unknown field "`+test.field+`"`) {
				t.Errorf("want a warning of the unknown field %s, got %v", test.field, recorder.text)
			}
			if _, there := atPath(stored.Object, test.field); there {
				t.Errorf("want the key dropped, got %v", stored.Object["spec"])
			}
		})
	}
}

// atPath looks a field up by a path such as "spec.upstreams[0].total".
func atPath(o any, path string) (any, bool) {
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "[0]", ".[0]"), ".") {
		if list, ok := o.([]any); ok && name == "[0]" && len(list) > 0 {
			o = list[0]
			continue
		}
		fields, ok := o.(map[string]any)
		if !ok {
			return nil, false
		}
		if o, ok = fields[name]; !ok {
			return nil, false
		}
	}
	return o, true
}
