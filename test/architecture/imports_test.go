// Package architecture holds the direction of imports, as docs/architecture.md
// draws it.
package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	root      = "github.com/timeout-operator/timeout-operator"
	clientlib = root + "/clientlib"
)

// pkg is what `go list -json` says of a package that matters here.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// list returns packages by pattern, without their tests.
func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps"}, patterns...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", patterns, err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("output of go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatalf("go list %v found no package", patterns)
	}
	return pkgs
}

// within reports whether an import path is the module or package, or below it.
func within(path string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	})
}

func refuse(t *testing.T, p pkg, deps []string, why string, forbidden func(string) bool) {
	t.Helper()
	for _, d := range deps {
		if forbidden(d) {
			t.Errorf("%s must not import %s: %s", p.ImportPath, d, why)
		}
	}
}

// The module for the API watch is the one that has client-go, and is nobody's
// dependency.
func TestTheClientLibraryKnowsNothingOfKubernetesOrTheOperator(t *testing.T) {
	const watch = clientlib + "/kubesource"
	for _, p := range list(t, clientlib+"/...") {
		refuse(t, p, p.Deps, "a workload may pin any version of client-go", func(d string) bool {
			return within(d, "k8s.io", "sigs.k8s.io") && !within(p.ImportPath, watch) || within(d, root) && !within(d, clientlib)
		})
	}
}

func TestTheCoreOfTheClientLibraryLinksFsnotifyOnly(t *testing.T) {
	core := []string{clientlib, clientlib + "/nethttp", clientlib + "/deadline", clientlib + "/clienttest"}
	for _, p := range list(t, core...) {
		refuse(t, p, p.Deps, "the core is the standard library and fsnotify", func(d string) bool {
			outside := strings.Contains(strings.SplitN(d, "/", 2)[0], ".")
			return outside && !within(d, clientlib, "github.com/fsnotify/fsnotify", "golang.org/x/sys")
		})
	}
}

func TestTheOperatorTakesVocabularyFromTheClientLibraryAndNoMore(t *testing.T) {
	operator := []string{root + "/api/...", root + "/controllers/...", root + "/cmd/manager", root + "/internal/plan", root + "/internal/operator"}
	for _, p := range list(t, operator...) {
		refuse(t, p, p.Deps, "the operator renders and judges, it makes no calls", func(d string) bool {
			return within(d, clientlib) && !within(d, clientlib+"/document", clientlib+"/capability", clientlib+"/failure")
		})
	}
}

func TestThePlanIsPure(t *testing.T) {
	for _, p := range list(t, root+"/internal/plan") {
		refuse(t, p, p.Imports, "a plan is a function of its input", func(d string) bool {
			return d == "context" || d == "os" || d == "net/http" || within(d, "log", "math/rand", "k8s.io/client-go", "sigs.k8s.io/controller-runtime")
		})
	}
}

func TestTheAPIHasNoLogic(t *testing.T) {
	for _, p := range list(t, root+"/api/v1alpha1") {
		refuse(t, p, p.Imports, "the API holds types, markers and constants", func(d string) bool {
			return within(d, "k8s.io/client-go", root+"/internal", root+"/controllers", root+"/cmd")
		})
	}
}

func TestCommandsAndControllersAreNobodysLibrary(t *testing.T) {
	for _, p := range list(t, root+"/internal/...", root+"/api/...", root+"/controllers/...") {
		refuse(t, p, p.Imports, "arrows run from commands to libraries", func(d string) bool {
			return within(d, root+"/cmd", root+"/hack", root+"/test") ||
				within(d, root+"/controllers") && !within(p.ImportPath, root+"/controllers", root+"/internal/operator")
		})
	}
}
