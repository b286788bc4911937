package cli

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

func TestPodsAreKnownByWhatTheyMount(t *testing.T) {
	pods := map[string]*unstructured.Unstructured{}
	for name, volumes := range map[string]string{
		"both":      "[{name: a, configMap: {name: timeouts-checkout}}, {name: b, configMap: {name: timeouts}}]",
		"other":     "[{name: a, configMap: {name: timeouts-cart}}, {name: b, configMap: {name: timeouts}}]",
		"withdrawn": "[{name: a, configMap: {name: timeouts-old}}, {name: b, configMap: {name: timeouts}}]",
		"projected": "[{name: a, projected: {sources: [{secret: {name: s}}, {configMap: {name: timeouts-checkout}}]}}]",
		"unrelated": "[{name: a, configMap: {name: app}}, {name: b, emptyDir: {}}]",
		"none":      "[]",
	} {
		pod := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{spec: {containers: [{name: app}], volumes: "+volumes+"}}"), &pod.Object); err != nil {
			t.Fatal(err)
		}
		pods[name] = pod
	}
	got := mountedBy(pods, []plan.ExistingDocument{{ConfigMap: "timeouts"}, {ConfigMap: "timeouts-checkout"}, {ConfigMap: "timeouts-old", Tombstone: true}})
	want := map[string][]string{
		"timeouts-checkout": {"both", "projected"},
		// For the client cart there is no document, and that for old is withdrawn.
		"timeouts": {"other", "withdrawn"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	note := silentNote("timeouts", strings.Split("a b c d e f g", " "))
	if !strings.HasSuffix(note, "a, b, c, d, e and 2 more") {
		t.Errorf("the note is %q", note)
	}
}
