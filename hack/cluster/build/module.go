package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindModule returns the folder of this module: from itself or a folder above it, or hack/cluster below one of those.
func FindModule(from string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("find the folder hack/cluster: %w", err)
	}
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "hack", "cluster")} {
			content, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && bytes.HasPrefix(content, []byte("module "+modulePath+"\n")) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder hack/cluster at or above %s: run this inside a checkout of timeout-operator", from)
		}
	}
}

// DefaultBin is the folder that binaries are built into when none is named: bin/k8s at the top of the repository.
func DefaultBin(module string) string { return filepath.Join(module, "..", "..", "bin", "k8s") }

// toolchain is what the go command says of itself; the field names are those of "go env".
type toolchain struct{ GOVERSION, GOOS, GOARCH, GOCACHE, GOMODCACHE, GOTMPDIR string }

// requirements are what go.mod says: the oldest Go it accepts, and the version of each module.
type requirements struct {
	goVersion string
	versions  map[string]string
}

// goCommand prepares a go command in the module, independent of go.work and of the machine's C compiler.
func goCommand(ctx context.Context, module string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	endWithParent(cmd)
	return cmd
}

func readToolchain(ctx context.Context, module string) (toolchain, error) {
	var tc toolchain
	out, err := goCommand(ctx, module, "env", "-json", "GOVERSION", "GOOS", "GOARCH", "GOCACHE", "GOMODCACHE", "GOTMPDIR").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return tc, errors.New("the go command is not in PATH: install Go, or put its bin folder into PATH")
	}
	if err != nil {
		return tc, explain("ask go for its settings (go env)", stderrOf(err), err)
	}
	if err := json.Unmarshal(out, &tc); err != nil {
		return tc, fmt.Errorf("read the output of go env: %w", err)
	}
	return tc, nil
}

func readRequirements(ctx context.Context, module string) (requirements, error) {
	out, err := goCommand(ctx, module, "mod", "edit", "-json").Output()
	if err != nil {
		return requirements{}, explain("read "+filepath.Join(module, "go.mod"), stderrOf(err), err)
	}
	var file struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return requirements{}, fmt.Errorf("read %s/go.mod: %w", module, err)
	}
	req := requirements{goVersion: file.Go, versions: map[string]string{}}
	for _, r := range file.Require {
		req.versions[r.Path] = r.Version
	}
	return req, nil
}

// oldGo says what to do when the go command is older than go.mod wants; nil when it is not.
func oldGo(have, want string) error {
	release, _, _ := strings.Cut(have, " ") // "go1.26.8 X:experiment"
	if !version.IsValid(release) || version.Compare(release, "go"+want) >= 0 {
		return nil // a development version says "devel ..."; the compiler has the last word
	}
	return fmt.Errorf("%s is too old to build the control plane: install Go %s or newer, or set GOTOOLCHAIN=auto", have, want)
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}
