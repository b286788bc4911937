// Package docs holds what the documentation says against what is there.
package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// block returns the first fenced block of a language after a heading.
func block(t *testing.T, text, heading, language string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, heading)
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	_, after, ok = strings.Cut(after, "```"+language+"\n")
	if !ok {
		t.Fatalf("there is no block of %s after %q", language, heading)
	}
	code, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatalf("the block after %q does not end", heading)
	}
	return code
}

// body returns what stands inside of a function, without indentation.
func body(t *testing.T, code, signature string) string {
	t.Helper()
	_, after, ok := strings.Cut(code, signature+" {\n")
	if !ok {
		t.Fatalf("there is no %q in:\n%s", signature, code)
	}
	inside, _, ok := strings.Cut(after, "\n}")
	if !ok {
		t.Fatalf("%q does not end", signature)
	}
	return inside
}

func TestTheReadmesProgramIsTheExampleThatCompiles(t *testing.T) {
	shown := body(t, block(t, read(t, "README.md"), "## In a workload", "go"), "func main()")
	compiled := body(t, read(t, "clientlib/example_test.go"), "func Example()")
	if shown != compiled {
		t.Errorf("README.md shows\n%s\nclientlib/example_test.go has\n%s", shown, compiled)
	}
}

func TestTheReadmesCommandsWithoutAClusterRun(t *testing.T) {
	script := "set -euo pipefail\n" + block(t, read(t, "README.md"), "## First success without a cluster", "sh")
	bin := t.TempDir()
	script = strings.ReplaceAll(script, "bin/kubectl-timeouts", filepath.Join(bin, "kubectl-timeouts"))
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	for _, want := range []string{`"schema": 1`, "timeouts.total", "shop/"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksInTheDocumentationLeadSomewhere(t *testing.T) {
	pages := []string{"README.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			rel, _ := filepath.Rel(root, path)
			pages = append(pages, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			}
		}
	}
}

func TestEveryTargetTheReadmeNamesIsInTheMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, found := range regexp.MustCompile("(?m)^make ([a-z-]+)|`make ([a-z-]+)`").FindAllStringSubmatch(read(t, "README.md"), -1) {
		target := found[1] + found[2]
		if !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("README.md names make %s, which the Makefile does not have", target)
		}
	}
}
