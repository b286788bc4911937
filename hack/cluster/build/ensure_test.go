package build_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/build"
	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
)

func TestEnsureBuildsOnlyWhatIsAskedForAndReusesIt(t *testing.T) {
	clustertest.NoLeaks(t)
	f := newFake(t)
	result := ensure(t, f, build.Kubectl, build.Etcd, build.Etcd)
	if result.Folder != f.o.Bin {
		t.Errorf("folder %s, want %s", result.Folder, f.o.Bin)
	}
	if got, want := f.builds(), []string{"etcd", "kubectl"}; !slices.Equal(got, want) {
		t.Errorf("built %v, want %v", got, want)
	}
	if got, want := f.files(), []string{".lock", "etcd", "etcd.stamp", "kubectl", "kubectl.stamp"}; !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	ensure(t, f, build.Kubectl, build.Etcd)
	if got := len(f.builds()); got != 2 {
		t.Errorf("%d builds after asking again, want still 2", got)
	}
	ensure(t, f)
	if got, want := f.builds()[2:], []string{"kube-apiserver", "kube-controller-manager"}; !slices.Equal(got, want) {
		t.Errorf("no name built %v besides, want %v", got, want)
	}
}

func TestEnsureRebuildsWhenAnythingInTheStampChanges(t *testing.T) {
	tests := []struct {
		name    string
		change  func(f *fake)
		rebuilt []string
	}{
		{"nothing", func(*fake) {}, nil},
		{"Go's version", func(f *fake) { f.env("go1.26.9") }, []string{"etcd", "configmap-mounter"}},
		{"Kubernetes' version, which is in the flags", func(f *fake) { f.requires("v1.37.3") }, []string{"etcd", "configmap-mounter"}},
		{"go.mod", func(f *fake) { f.write("module/go.mod", "module example // other\n") }, []string{"etcd", "configmap-mounter"}},
		{"go.sum", func(f *fake) { f.write("module/go.sum", "other\n") }, []string{"etcd", "configmap-mounter"}},
		{"this module's sources", func(f *fake) { f.write("module/mount/mount.go", "package mount // other\n") }, []string{"configmap-mounter"}},
		{"a test of this module", func(f *fake) { f.write("module/mount/mount_test.go", "package mount\n") }, nil},
		{"the binary is gone", func(f *fake) { f.remove("bin/etcd") }, []string{"etcd"}},
		{"the stamp is gone", func(f *fake) { f.remove("bin/etcd.stamp") }, []string{"etcd"}},
		{"the stamp is cut", func(f *fake) { f.write("bin/etcd.stamp", "component: etcd") }, []string{"etcd"}},
		{"the binary is not executable", func(f *fake) { os.Chmod(filepath.Join(f.o.Bin, "etcd"), 0o644) }, []string{"etcd"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			ensure(t, f, build.Etcd, build.Mounter)
			tt.change(f)
			ensure(t, f, build.Etcd, build.Mounter)
			if got := f.builds()[2:]; !slices.Equal(got, tt.rebuilt) {
				t.Errorf("rebuilt %v, want %v", got, tt.rebuilt)
			}
			ensure(t, f, build.Etcd, build.Mounter)
			if got := len(f.builds()); got != 2+len(tt.rebuilt) {
				t.Errorf("built again without a change: %v", f.builds())
			}
		})
	}
}

func TestEnsurePrefersAssetsAndBuildsWhatTheyLack(t *testing.T) {
	f := newFake(t)
	f.o.Assets = filepath.Join(f.root, "assets")
	f.write("assets/etcd", "theirs")
	if err := os.Chmod(filepath.Join(f.o.Assets, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	f.o.Log = &log

	if got := ensure(t, f, build.Etcd).Folder; got != f.o.Assets {
		t.Errorf("folder %s, want the assets' own", got)
	}
	if !strings.Contains(log.String(), "etcd: taken from KUBEBUILDER_ASSETS") {
		t.Errorf("the log does not say where etcd came from: %s", &log)
	}
	result := ensure(t, f, build.Etcd, build.Kubectl)
	if !strings.Contains(log.String(), "not in KUBEBUILDER_ASSETS ("+f.o.Assets+"): kubectl\n") {
		t.Errorf("the log does not say that kubectl has to be built: %s", &log)
	}
	if got, want := f.builds(), []string{"kubectl"}; !slices.Equal(got, want) {
		t.Errorf("built %v, want %v", got, want)
	}
	for name, want := range map[string]string{"etcd": "theirs", "kubectl": "binary of k8s.io/kubernetes/cmd/kubectl\n"} {
		if got, err := os.ReadFile(filepath.Join(result.Folder, name)); err != nil || string(got) != want {
			t.Errorf("%s in the joint folder: %q, %v; want %q", name, got, err, want)
		}
	}
	f.o.Assets = f.o.Bin // as in a Makefile that exports where the binaries are
	f.env("go1.26.9")
	ensure(t, f, build.Kubectl)
	if got := len(f.builds()); got != 2 {
		t.Errorf("%d builds, want 2: the folder that is built into must not override its own stamps", got)
	}
}

func TestTwoEnsuresAtOnceBuildOnce(t *testing.T) {
	f := newFake(t)
	f.write("gate", "")
	logs := make([]syncBuffer, 2)
	var both sync.WaitGroup
	for i := range logs {
		o := f.o
		o.Log = &logs[i]
		both.Go(func() {
			if _, err := build.Ensure(context.Background(), o, build.Etcd); err != nil {
				t.Error(err)
			}
		})
	}
	clustertest.Eventually(t, 10*time.Second, "one waits for the other", func() error {
		if strings.Contains(logs[0].String()+logs[1].String(), "another process is building") {
			return nil
		}
		return errors.New("nobody waits")
	})
	f.remove("gate")
	both.Wait()
	if got := f.builds(); len(got) != 1 {
		t.Errorf("built %v, want one build", got)
	}
}

func TestAFailedOrInterruptedBuildLeavesTheFolderAsItWas(t *testing.T) {
	before := []string{".lock", "etcd", "etcd.stamp"}
	t.Run("failed", func(t *testing.T) {
		f := newFake(t)
		ensure(t, f, build.Etcd)
		f.write("build.stderr", "# example\nx.go:1: undefined: y\n")
		_, err := build.Ensure(context.Background(), f.o, build.Kubectl)
		if err == nil || !strings.Contains(err.Error(), "build kubectl") || !strings.Contains(err.Error(), "undefined: y") {
			t.Errorf("error %v, want one that names kubectl and repeats the compiler", err)
		}
		if got := f.files(); !slices.Equal(got, before) {
			t.Errorf("files %v, want %v", got, before)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		clustertest.NoLeaks(t)
		f := newFake(t)
		ensure(t, f, build.Etcd)
		f.write("gate", "")
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := build.Ensure(ctx, f.o, build.Kubectl)
			failed <- err
		}()
		clustertest.Eventually(t, 10*time.Second, "the build has begun", func() error {
			if len(f.builds()) == 2 {
				return nil
			}
			return errors.New("not yet")
		})
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		if got := f.files(); !slices.Equal(got, before) {
			t.Errorf("files %v, want %v", got, before)
		}
		clustertest.NoProcessIn(t, f.o.Module)
	})
}

func TestEnsureSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	tests := []struct {
		name   string
		change func(f *fake)
		names  []string
		want   string
	}{
		{"unknown name", func(*fake) {}, []string{"kubelet"}, `no binary "kubelet" to build; known are: etcd kube-apiserver`},
		{"old Go", func(f *fake) { f.env("go1.25.4") }, nil, "go1.25.4 is too old to build the control plane: install Go 1.26.0 or newer"},
		{"no network", func(f *fake) {
			f.write("list.stderr", "go: k8s.io/api@v0.37.2: Get \"https://proxy.golang.org/…\": dial tcp: lookup proxy.golang.org: no such host\n")
		}, nil, "find the packages to build: Go modules could not be downloaded: check the network"},
		{"full disk", func(f *fake) {
			f.write("build.stderr", "compile: writing output: write $WORK/b1: no space left on device\n")
		}, nil, "build etcd: the disk is full"},
		{"folder that cannot be made", func(f *fake) { f.write("bin", "a file") }, nil, "name another one with --bin"},
		{"no go command", func(f *fake) { f.t.Setenv("PATH", f.root) }, nil, "go command is not in PATH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			tt.change(f)
			_, err := build.Ensure(context.Background(), f.o, tt.names...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestFindModuleFromInsideAndAbove(t *testing.T) {
	root := t.TempDir()
	module := filepath.Join(root, "hack", "cluster")
	deep := filepath.Join(root, "a", "b")
	for _, dir := range []string{filepath.Join(module, "build"), deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	content := "module github.com/timeout-operator/timeout-operator/hack/cluster\n"
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{module, filepath.Join(module, "build"), root, deep} {
		if got, err := build.FindModule(from); err != nil || got != module {
			t.Errorf("from %s: %q, %v; want %q", from, got, err, module)
		}
	}
	if _, err := build.FindModule(t.TempDir()); err == nil || !strings.Contains(err.Error(), "inside a checkout") {
		t.Errorf("outside: error %v, want one that says where to run it", err)
	}
	if got, want := build.DefaultBin(module), filepath.Join(root, "bin", "k8s"); got != want {
		t.Errorf("default folder %s, want %s", got, want)
	}
}

func ensure(t *testing.T, f *fake, names ...string) build.Result {
	t.Helper()
	result, err := build.Ensure(context.Background(), f.o, names...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// syncBuffer may be read while it is written to.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
