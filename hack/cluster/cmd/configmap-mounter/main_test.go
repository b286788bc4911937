package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestArgumentMistakesAreNamedAndExitWith2(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	dir := t.TempDir()
	tests := []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-h"}, 0, "Usage: cluster mount"},
		{[]string{"a=client"}, 2, "--dir is missing"},
		{[]string{"--dir", dir, "a=client"}, 2, "--kubeconfig is missing, and KUBECONFIG is not set"},
		{[]string{"--dir", dir, "--kubeconfig", "k"}, 2, "name at least one CONFIGMAP=SUBDIR"},
		{[]string{"a=client", "--dir", dir, "b=client", "--kubeconfig", "k"}, 2, `"b=client": another volume`},
		{[]string{"--delay", "-1s", "--dir", dir, "--kubeconfig", "k", "a=client"}, 2, "--delay -1s"},
		{[]string{"--delay", "soon"}, 2, `invalid value "soon"`},
		{[]string{"--kubeconfig", dir + "/none", "--dir", dir, "a=client"}, 1, "read the kubeconfig " + dir + "/none"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if got := run(t.Context(), tt.args, &stdout, &stderr); got != tt.status {
				t.Errorf("exit status %d, want %d", got, tt.status)
			}
			if !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
				t.Errorf("stderr %q, stdout %q; want %q on stderr only", &stderr, &stdout, tt.want)
			}
		})
	}
}
