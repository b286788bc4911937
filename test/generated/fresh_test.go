// Package generated proves that generated files are fresh: generating them
// again, in a copy of the repository, changes nothing.
package generated

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// inputs are what the generators read and write.
var inputs = []string{"go.mod", "go.sum", "go.work", "api", "config", "controllers", "internal", "clientlib"}

func TestGeneratedFilesAreFresh(t *testing.T) {
	copied := t.TempDir()
	for _, name := range inputs {
		copyTree(t, filepath.Join(root, name), filepath.Join(copied, name))
	}
	before := contents(t, copied)

	generate := exec.CommandContext(t.Context(), "go", "generate", "./api/...", "./controllers/...")
	generate.Dir = copied
	// The workspace lists modules that the generators have no need of.
	generate.Env = append(os.Environ(), "GOWORK=off")
	if output, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("go generate: %v\n%s", err, output)
	}

	after := contents(t, copied)
	for path, text := range after {
		if before[path] != text {
			t.Errorf("%s is not fresh: run make generate", path)
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			t.Errorf("%s is generated no longer: run make generate", path)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents reads what generators write: Go files of the API and manifests.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"api", "config"} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, dir+"/")] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
