package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
)

// fakeGo stands in for the go command: what it answers and how it ends is in files, so that a test decides. It appends
// a line to the file builds for every build, and waits for the file gate to go if there is one.
const fakeGo = `#!/bin/sh
root=$FAKE_GO
case "$1" in
env) cat "$root/env.json" ;;
mod) cat "$root/mod.json" ;;
list)
	if [ -e "$root/list.stderr" ]; then cat "$root/list.stderr" >&2; exit 1; fi
	printf 'stale dependency: a\nbuild ID mismatch\n\nnot installed but available in build cache\n' ;;
build)
	while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
	echo "$1" >>"$root/builds"
	while [ -e "$root/gate" ]; do sleep 0.05; done
	echo internal/abi >&2
	if [ -e "$root/build.stderr" ]; then echo partial >"$out"; cat "$root/build.stderr" >&2; exit 1; fi
	echo "binary of $1" >"$out"; chmod +x "$out" ;;
esac
`

// fake is a module, a folder for binaries and a go command to build them with.
type fake struct {
	t    *testing.T
	root string
	o    build.Options
}

func newFake(t *testing.T) *fake {
	t.Helper()
	root := t.TempDir()
	f := &fake{t: t, root: root, o: build.Options{Module: filepath.Join(root, "module"), Bin: filepath.Join(root, "bin")}}
	f.write("path/go", fakeGo)
	if err := os.Chmod(filepath.Join(root, "path/go"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("module/go.mod", "module example\n")
	f.write("module/go.sum", "")
	f.write("module/mount/mount.go", "package mount\n")
	f.write("module/cmd/configmap-mounter/main.go", "package main\n")
	f.env("go1.26.8")
	f.requires("v1.37.2")
	t.Setenv("FAKE_GO", root)
	t.Setenv("PATH", filepath.Join(root, "path")+":"+os.Getenv("PATH"))
	return f
}

func (f *fake) env(version string) {
	f.write("env.json", `{"GOVERSION":"`+version+`","GOOS":"linux","GOARCH":"amd64","GOCACHE":"`+f.root+`/cache","GOMODCACHE":"`+f.root+`/mod"}`)
}

func (f *fake) requires(kubernetes string) {
	f.write("mod.json", `{"Go":"1.26.0","Require":[{"Path":"k8s.io/kubernetes","Version":"`+kubernetes+`"},{"Path":"go.etcd.io/etcd/server/v3","Version":"v3.7.3"}]}`)
}

func (f *fake) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.root, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(f.root, name)) // absent is empty
	return string(content)
}

// builds are the packages built so far, short.
func (f *fake) builds() []string {
	var names []string
	for line := range strings.Lines(f.read("builds")) {
		names = append(names, filepath.Base(strings.TrimSuffix(strings.TrimSpace(line), "/server/v3")))
	}
	return names
}

// files are the names in the folder of the binaries.
func (f *fake) files() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.o.Bin)
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
