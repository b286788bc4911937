package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// inCache is go list's reason for a main package that is compiled but not installed.
const inCache = "not installed but available in build cache"

// countUncached asks go how many packages it would have to compile. The first time, this downloads the modules.
func countUncached(ctx context.Context, module string, flags []string, pending []target) (int, error) {
	args := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.StaleReason}}{{end}}"}, flags...)
	for _, t := range pending {
		args = append(args, t.pkg)
	}
	cmd := goCommand(ctx, module, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, failed(ctx, "find the packages to build", stderr.String(), err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		if reason := strings.TrimSpace(line); reason != "" && reason != inCache {
			n++
		}
	}
	return n, nil
}

// compile builds one target, announcing each package that it compiles.
func compile(ctx context.Context, module string, flags []string, t target, output string, announce func()) error {
	args := append([]string{"build", "-v"}, flags...)
	cmd := goCommand(ctx, module, append(args, "-o", output, t.pkg)...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // its compilers too
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: start go: %w", t.name, err)
	}
	said := readPackages(stderr, announce)
	if err := cmd.Wait(); err != nil {
		return failed(ctx, "build "+t.name, said, err)
	}
	return nil
}

// readPackages announces the lines that are package paths and returns the others.
func readPackages(output io.Reader, announce func()) string {
	var said strings.Builder
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case isPackage(line):
			announce()
		case !strings.HasPrefix(line, "go: downloading "):
			said.WriteString(line + "\n")
		}
	}
	return said.String()
}

func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :#\t")
}

// failed tells an interruption from a failure.
func failed(ctx context.Context, doing, output string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	return explain(doing, output, err)
}

// install puts a binary in its place and only then its stamp, so that no stamp ever vouches for another binary.
func install(temporary, path, stamp string) error {
	if err := os.Remove(stampPath(path)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	temporaryStamp := filepath.Join(filepath.Dir(path), ".stamp.tmp")
	if err := os.WriteFile(temporaryStamp, []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("stamp %s: %w", path, err)
	}
	if err := os.Rename(temporaryStamp, stampPath(path)); err != nil {
		return fmt.Errorf("stamp %s: %w", path, err)
	}
	return nil
}
