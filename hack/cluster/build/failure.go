package build

import (
	"fmt"
	"strings"
)

// failures maps what the go command prints to what happened and how to mend it; the first match wins.
var failures = []struct {
	marks []string
	text  string
}{
	{[]string{"no space left on device", "disk quota exceeded"}, "the disk is full: free some space, or move GOCACHE, GOMODCACHE or --bin to a larger disk"},
	{[]string{"requires go >=", "toolchain not available", "GOTOOLCHAIN=local"}, "this Go is too old: install the version that hack/cluster/go.mod names, or set GOTOOLCHAIN=auto"},
	{[]string{"checksum mismatch", "missing go.sum entry", "updates to go.mod needed"}, "go.mod and go.sum do not fit together: restore both from git"},
	{[]string{"GOPROXY=off", "dial tcp", "no such host", "server misbehaving", "connection refused", "connection reset", "i/o timeout", "TLS handshake timeout", "proxyconnect"},
		"Go modules could not be downloaded: check the network, or set GOPROXY to a proxy that can be reached"},
	{[]string{"signal: killed"}, "a compiler was killed, most likely for lack of memory: close something or set GOFLAGS=-p=1"},
}

// explain makes one error of what was being done, what the go command printed and how to mend it.
func explain(doing, output string, err error) error {
	last := lastLines(output, 5)
	for _, f := range failures {
		for _, mark := range f.marks {
			if strings.Contains(output, mark) {
				return fmt.Errorf("%s: %s (go said: %s)", doing, f.text, lineWith(output, mark))
			}
		}
	}
	if last == "" {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w; go said:\n%s", doing, err, last)
}

func lineWith(output, mark string) string {
	for line := range strings.Lines(output) {
		if strings.Contains(line, mark) {
			return strings.TrimSpace(line)
		}
	}
	return mark
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
