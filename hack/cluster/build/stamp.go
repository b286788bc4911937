package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// versionSetting is the variable in which Kubernetes' binaries keep their version; without it they call themselves
// v0.0.0-master and kubectl warns about the version skew.
const versionSetting = "k8s.io/component-base/version.gitVersion"

// flags are the arguments of "go build" and "go list". They are the same for all targets, so that the targets share
// the build cache: go builds the packages that they have in common once.
func flags(kubernetesVersion string) []string {
	return []string{"-trimpath", "-ldflags", "-s -w -X " + versionSetting + "=" + kubernetesVersion}
}

// stamp says from what a binary was made; two binaries with the same stamp are interchangeable.
func stamp(t target, version string, tc toolchain, flags []string, modules string) string {
	return fmt.Sprintf("component: %s %s %s\ngo: %s %s/%s\nflags: CGO_ENABLED=0 %s\nmodules: %s\n",
		t.name, t.pkg, version, tc.GOVERSION, tc.GOOS, tc.GOARCH, strings.Join(flags, " "), modules)
}

// reusable reports whether the binary at path was made from what the stamp wanted says.
func reusable(path, wanted string) bool {
	if !executable(path) {
		return false
	}
	have, err := os.ReadFile(stampPath(path))
	return err == nil && string(have) == wanted
}

func stampPath(binary string) string { return binary + ".stamp" }

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// digest hashes names and contents of files; the paths are below root.
func digest(root string, paths ...string) (string, error) {
	sum := sha256.New()
	for _, path := range paths {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return "", fmt.Errorf("hash what the binaries are made from: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", path, len(content))
		sum.Write(content)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// sourceFiles lists the Go files, without tests, of the folders below root, sorted.
func sourceFiles(root string, folders []string) ([]string, error) {
	var files []string
	for _, folder := range folders {
		found, err := fs.Glob(os.DirFS(root), folder+"/*.go")
		if err != nil {
			return nil, fmt.Errorf("list the sources in %s: %w", folder, err)
		}
		for _, file := range found {
			if !strings.HasSuffix(file, "_test.go") {
				files = append(files, file)
			}
		}
	}
	return files, nil
}
