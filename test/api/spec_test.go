package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSpecPagesNameEveryField: a field that is not on its page does not exist
// for its users.
func TestSpecPagesNameEveryField(t *testing.T) {
	for _, test := range []struct{ page, resource, part, prefix string }{
		{"timeoutpolicy.md", "timeoutpolicies", "spec", ""},
		{"timeoutpolicy.md", "timeoutpolicies", "status", ""},
		{"clientreport.md", "clientreports", "library", "library"},
		{"clientreport.md", "clientreports", "clients", "clients"},
	} {
		text, _ := page(t, test.page)
		for _, path := range schemaPaths(t, test.resource, test.part, test.prefix) {
			if strings.HasPrefix(path, "conditions[]") {
				path = "conditions"
			}
			if !strings.Contains(text, "| `"+path+"` |") {
				t.Errorf("%s does not explain `%s`", test.page, path)
			}
		}
	}
}

// TestSpecPageNamesEveryConditionAndReason, as the constants spell them.
func TestSpecPageNamesEveryConditionAndReason(t *testing.T) {
	text, _ := page(t, "timeoutpolicy.md")
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1/conditions.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		found++
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "`"+value+"`") {
			t.Errorf("the page does not name %s, %s", spec.Names[0].Name, value)
		}
		return true
	})
	if found < 20 {
		t.Errorf("only %d constants were found", found)
	}
}

// TestSpecPageListsTheWordsOfTheSchema: each value of each enum is on the page.
func TestSpecPageListsTheWordsOfTheSchema(t *testing.T) {
	text, _ := page(t, "timeoutpolicy.md")
	for _, path := range [][]string{
		{"spec", "mode"}, {"spec", "onUnsupported"}, {"spec", "defaults", "timeouts", "scope"},
		{"spec", "defaults", "retry", "backoff", "jitter"}, {"spec", "defaults", "retry", "retryAfter", "mode"},
		{"spec", "defaults", "deadline", "inbound"}, {"spec", "defaults", "retry", "retryableKinds", "[]"},
		{"spec", "upstreams", "[]", "routes", "[]", "match", "pathMatch"},
	} {
		words := schemaAt(t, "timeoutpolicies", path...).Enum
		if len(words) == 0 {
			t.Errorf("%v has no enum", path)
		}
		for _, word := range words {
			if name := strings.Trim(string(word.Raw), `"`); !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the page does not name %s of %v", name, path)
			}
		}
	}
}

// TestReportOnTheSpecPageIsValid: the schema takes it; who may send it is
// another question, so that the answer is Forbidden and not Invalid.
func TestReportOnTheSpecPageIsValid(t *testing.T) {
	text, _ := page(t, "clientreport.md")
	_, block, _ := strings.Cut(text, "```yaml\n")
	block, _, _ = strings.Cut(block, "\n```")
	objects, err := decodeAll([]byte(block))
	if err != nil || len(objects) != 1 {
		t.Fatalf("want one example, got %d: %v", len(objects), err)
	}
	report := objects[0]
	report.SetNamespace("default")
	_, err = cluster.Resource(reports).Namespace("default").Create(t.Context(), report, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsForbidden(err) {
		t.Errorf("want the example valid, and an administrator forbidden to send it, got %v", err)
	}
}
