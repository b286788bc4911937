package clientlib_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

const module = "github.com/timeout-operator/timeout-operator/clientlib"

// listDeps returns what a package of this module links beside the standard
// library.
func listDeps(t *testing.T, pkg string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

func TestCoreLinksTheStandardLibraryAndFsnotifyOnly(t *testing.T) {
	allowed := []string{"github.com/fsnotify/fsnotify", "golang.org/x/sys/unix", "golang.org/x/sys/windows"}
	for _, pkg := range []string{"", "/engine", "/nethttp", "/source", "/report", "/deadline", "/document", "/capability", "/failure", "/retryafter", "/clienttest", "/adaptertest"} {
		for _, dep := range listDeps(t, module+pkg) {
			switch {
			case slices.Contains(allowed, dep), strings.HasPrefix(dep, "github.com/fsnotify/fsnotify/internal"):
			case strings.HasPrefix(dep, module+"/clientprom"), strings.HasPrefix(dep, module+"/clientotel"):
				t.Errorf("%s%s links %s, a package on top of it", module, pkg, dep)
			case dep != module && !strings.HasPrefix(dep, module+"/"):
				t.Errorf("%s%s links %s: the core has the standard library and fsnotify only", module, pkg, dep)
			}
		}
	}
}

// What enforces a policy on a call does not know where policies come from.
func TestImportsRunInOneDirection(t *testing.T) {
	forbidden := map[string][]string{
		"/failure":    {"/document", "/engine", "/capability", "/source", "/report"},
		"/document":   {"/engine", "/capability", "/source", "/report"},
		"/capability": {"/engine", "/source", "/report", "/nethttp"},
		"/engine":     {"", "/source", "/report", "/nethttp", "/capability"},
		"/source":     {"", "/engine", "/report", "/nethttp"},
		"/report":     {"", "/engine", "/source", "/nethttp"},
	}
	for pkg, list := range forbidden {
		deps := listDeps(t, module+pkg)
		for _, other := range list {
			if slices.Contains(deps, module+other) {
				t.Errorf("%s imports %s", module+pkg, module+other)
			}
		}
	}
}

func TestSidePackagesLinkOneLibraryEach(t *testing.T) {
	for pkg, foreign := range map[string]string{
		"/clientprom": "go.opentelemetry.io/",
		"/clientotel": "github.com/prometheus/",
	} {
		for _, dep := range listDeps(t, module+pkg) {
			if strings.HasPrefix(dep, foreign) || strings.HasPrefix(dep, "k8s.io/") || strings.HasPrefix(dep, "go.opentelemetry.io/otel/sdk") {
				t.Errorf("%s links %s", module+pkg, dep)
			}
		}
	}
}
