package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	lessonRow  = regexp.MustCompile("(?m)^\\| ([ATRO]\\d\\d) \\|.*\\| ([^|]*) \\|$")
	lessonTest = regexp.MustCompile("`(Test\\w+)`")
	lessonName = regexp.MustCompile(`\b[ATRO]\d\d\b`)
	// A line of nethttp's table of references: what it is, and the tests.
	reference = regexp.MustCompile(`(?m)^\t\{"([^"]*)", "([^"]*)"\},$`)
)

// The page says which tests hold a lesson, and each test says so too, so that
// neither can drift from the other.
func TestLessonsAndTestsNameEachOther(t *testing.T) {
	page := map[string][]string{}
	for _, row := range lessonRow.FindAllStringSubmatch(read(t, "docs/lessons.md"), -1) {
		for _, test := range lessonTest.FindAllStringSubmatch(row[2], -1) {
			page[row[1]] = append(page[row[1]], test[1])
		}
		if len(page[row[1]]) == 0 {
			t.Errorf("no test holds %s", row[1])
		}
	}
	if len(page) == 0 {
		t.Fatal("docs/lessons.md has no lessons")
	}
	tests := lessonsOfTests(t)
	for _, ref := range reference.FindAllStringSubmatch(read(t, "clientlib/nethttp/references_test.go"), -1) {
		for _, lesson := range lessonName.FindAllString(ref[1], -1) {
			for _, test := range strings.Fields(ref[2]) {
				_, name, qualified := strings.Cut(test, ".")
				if !qualified {
					name = test
				}
				tests[lesson] = append(tests[lesson], name)
			}
		}
	}
	for _, lesson := range slices.Sorted(maps.Keys(page)) {
		for _, test := range page[lesson] {
			if !slices.Contains(tests[lesson], test) {
				t.Errorf("docs/lessons.md says that %s holds %s, which the test does not: write it into its comment", test, lesson)
			}
		}
	}
	for _, lesson := range slices.Sorted(maps.Keys(tests)) {
		for _, test := range tests[lesson] {
			if !slices.Contains(page[lesson], test) {
				t.Errorf("%s says that it holds %s, which docs/lessons.md does not: add it to the row", test, lesson)
			}
		}
	}
}

// lessonsOfTests returns the tests whose comments, or the comments in whose
// bodies, name a lesson.
func lessonsOfTests(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			for _, lesson := range lessonName.FindAllString(commentsOf(file, fn), -1) {
				if !slices.Contains(found[lesson], fn.Name.Name) {
					found[lesson] = append(found[lesson], fn.Name.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func commentsOf(file *ast.File, fn *ast.FuncDecl) string {
	var text strings.Builder
	text.WriteString(fn.Doc.Text())
	for _, c := range file.Comments {
		if c.Pos() > fn.Pos() && c.End() < fn.End() {
			text.WriteString(c.Text())
		}
	}
	return text.String()
}
