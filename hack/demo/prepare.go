package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// module is the path in the go.mod of the checkout that the demo works in.
const module = "module github.com/timeout-operator/timeout-operator\n"

// stateBytes is what the control plane, its logs and the volumes take at most.
const stateBytes = 300_000_000

// findRepository returns the checkout around the working directory, or else
// around the demo's own binary.
func findRepository() (string, error) {
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	own, _ := os.Executable()
	for _, start := range []string{working, filepath.Dir(own)} {
		for dir := start; ; dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), module) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("%s is not in a checkout of timeout-operator: go there first", working)
}

// checkMachine returns an error that says what is missing before anything is
// started.
func checkMachine(o options) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("Go was not found: install Go 1.26 or newer (https://go.dev/dl) and put it on the PATH")
	}
	for _, name := range []string{"api-port", "orders-port", "checkout-port"} {
		if err := checkPort(name, o.ports()[name]); err != nil {
			return err
		}
	}
	return checkDisk(os.TempDir(), stateBytes)
}

func checkPort(name string, port int) error {
	if port == 0 {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		variable := "DEMO_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		return fmt.Errorf("port %d is not free (%w): name another one with --%s or %s, or 0 for a free one", port, err, name, variable)
	}
	return listener.Close()
}

func checkDisk(folder string, needed uint64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("see how much disk is free in %s: %w", folder, err)
	}
	if free := uint64(fs.Bavail) * uint64(fs.Bsize); free < needed {
		return fmt.Errorf("not enough free disk in %s: %d MB needed, %d MB free; free some space, or point TMPDIR to a larger disk",
			folder, needed/1e6, free/1e6)
	}
	return nil
}

// build makes what is not up to date, and finds the control plane's binaries.
func (d *demo) build(ctx context.Context) error {
	d.tell.step("Build what is missing",
		"The first time this compiles Kubernetes' API server, etcd and kubectl from source: 6 to 8 minutes on 2 cores,",
		"5 GB of disk in Go's caches. Afterwards it takes seconds.")
	start := time.Now()
	environment := append(os.Environ(), "CGO_ENABLED=0")
	if err := d.goBuild(ctx, filepath.Join(d.root, "hack", "cluster"), append(environment, "GOWORK=off"),
		"(cd hack/cluster && GOWORK=off CGO_ENABLED=0 go build -trimpath -o ../../bin/cluster .)", "-o", "../../bin/cluster", "."); err != nil {
		return err
	}
	d.tell.command("bin/cluster", "build", "etcd", "kube-apiserver", "kubectl", "configmap-mounter")
	cluster := d.command(ctx, d.bin("cluster"), "build", "etcd", "kube-apiserver", "kubectl", "configmap-mounter")
	cluster.Stderr = os.Stderr // its progress
	folder, err := cluster.Output()
	if err != nil {
		return errors.New("the control plane's binaries could not be built; the line above says why")
	}
	d.assets = strings.TrimSpace(string(folder))
	if err := d.goBuild(ctx, d.root, environment, "CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/manager ./hack/demo/checkout ./hack/demo/orders",
		"-o", "bin/", "./cmd/manager", "./hack/demo/checkout", "./hack/demo/orders"); err != nil {
		return err
	}
	d.tell.say("Built in " + seconds(time.Since(start)) + ".")
	return nil
}

func (d *demo) goBuild(ctx context.Context, dir string, environment []string, shown string, args ...string) error {
	d.tell.say("$ " + shown)
	cmd := d.command(ctx, "go", append([]string{"build", "-v", "-trimpath"}, args...)...)
	cmd.Dir, cmd.Env = dir, environment
	progress := &progress{out: os.Stderr, last: time.Now()}
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", shown, err)
	}
	return nil
}

// progress counts the packages that "go build -v" names, says how far it is
// every few seconds, and passes everything else on.
type progress struct {
	out      io.Writer
	last     time.Time
	packages int
	partial  string
}

const progressInterval = 10 * time.Second

// Write implements io.Writer.
func (p *progress) Write(text []byte) (int, error) {
	lines := strings.SplitAfter(p.partial+string(text), "\n")
	p.partial = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		if strings.ContainsAny(line, " \t") {
			fmt.Fprint(p.out, line)
			continue
		}
		p.packages++
	}
	if time.Since(p.last) > progressInterval {
		p.last = time.Now()
		fmt.Fprintf(p.out, "%s%d packages compiled\n", indent, p.packages)
	}
	return len(text), nil
}

// command is one that ends by itself.
func (d *demo) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = d.root
	cmd.SysProcAttr = childAttributes(syscall.SIGINT) // after which the go command deletes its temporary files
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (d *demo) bin(name string) string { return filepath.Join(d.root, "bin", name) }
