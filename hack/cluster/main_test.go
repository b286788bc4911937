package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain lets a test start this binary as the command itself.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_AS_CLUSTER") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestArgumentMistakesAreNamedAndExitWith2(t *testing.T) {
	tests := []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "Usage: cluster COMMAND"},
		{[]string{"help"}, 0, "Usage: cluster COMMAND"},
		{[]string{"down"}, 2, `there is no command "down"; there are build, up and mount`},
		{[]string{"build", "kubelet"}, 2, `cluster build: there is no binary "kubelet"`},
		{[]string{"build", "etcd", "--no-such"}, 2, "cluster build: flag provided but not defined: -no-such"},
		{[]string{"build", "-h"}, 0, "Flags of cluster build:"},
		{[]string{"up", "etcd"}, 2, `up takes no argument but flags, got ["etcd"]`},
		{[]string{"up", "--port", "65536"}, 2, "--port 65536: a port is 1 to 65535, or 0 for a free one"},
		{[]string{"up", "--port", "-1"}, 2, "--port -1"},
		{[]string{"up", "--port", "http"}, 2, `invalid value "http" for flag -port`},
		{[]string{"up", "-h"}, 0, "-audit-log file"},
		{[]string{"mount", "--bin"}, 2, "flag needs an argument: -bin"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			got := run(t.Context(), tt.args, terminal{out: &stdout, err: &stderr})
			if got != tt.status {
				t.Errorf("exit status %d, want %d", got, tt.status)
			}
			if !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("stderr %q, want %q in it", &stderr, tt.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout %q, want nothing there", &stdout)
			}
		})
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", assets(t, "etcd", "kubectl"))
	for _, args := range [][]string{{"build", "--bin", "x", "etcd", "kubectl"}, {"build", "etcd", "--bin=x", "kubectl"}, {"build", "etcd", "kubectl", "-bin", "x"}} {
		var stdout bytes.Buffer
		if got := run(t.Context(), args, terminal{out: &stdout, err: io.Discard}); got != exitOK {
			t.Errorf("%v: exit status %d", args, got)
		}
		if got, want := stdout.String(), os.Getenv("KUBEBUILDER_ASSETS")+"\n"; got != want {
			t.Errorf("%v printed %q, want the folder and nothing else: %q", args, got, want)
		}
	}
}

func TestCutBin(t *testing.T) {
	tests := []struct {
		args, others []string
		bin          string
	}{
		{[]string{"--dir", "d", "a=b"}, []string{"--dir", "d", "a=b"}, ""},
		{[]string{"--bin", "x", "--dir=d", "a=b"}, []string{"--dir=d", "a=b"}, "x"},
		{[]string{"a=b", "-bin=x"}, []string{"a=b"}, "x"},
		{[]string{"bin=client", "--bin=x"}, []string{"bin=client"}, "x"},
		{[]string{"bin"}, []string{"bin"}, ""},
	}
	for _, tt := range tests {
		bin, others, err := cutBin(tt.args)
		if err != nil || bin != tt.bin || !slices.Equal(others, tt.others) {
			t.Errorf("%q: %q %q %v, want %q %q", tt.args, bin, others, err, tt.bin, tt.others)
		}
	}
}

func TestAnAnswerIsOneLine(t *testing.T) {
	if got := answer("kill etcd", nil); got != "ok kill etcd" {
		t.Errorf("%q", got)
	}
	if got := answer("start etcd", errors.New("it died:\nlog")); got != "failed start etcd: it died: | log" {
		t.Errorf("%q", got)
	}
}

// assets makes a folder of binaries that do nothing.
func assets(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(dir+"/"+name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
