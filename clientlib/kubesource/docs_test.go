package kubesource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What people copy is what is tested.
func TestTheRightsInTheDocumentationAreThoseOfTheSample(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join(repository, "config/samples/api-watch-rbac.yaml"))
	must(t, err)
	for _, path := range []string{filepath.Join(repository, "docs/reload.md"), "doc.go"} {
		page, err := os.ReadFile(path)
		must(t, err)
		text := strings.ReplaceAll(string(page), "\n//\t", "\n")
		_, after, _ := strings.Cut(text, "\nrules:\n")
		rules, _, found := strings.Cut(after, "verbs:")
		if !found || !strings.Contains(string(sample), "\nrules:\n"+rules+"verbs: [list, watch]\n") || !strings.Contains(text, rules+"verbs: [list, watch]") {
			t.Errorf("%s has other rules than the sample:\n%s", path, rules)
		}
	}
}
