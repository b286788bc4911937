package integration

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
)

// startControllerManager runs the controllers that end namespaces and collect
// garbage, until the test ends.
func (c *cluster) startControllerManager(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, filepath.Join(c.env.BinaryAssetsDirectory, "kube-controller-manager"),
		"--kubeconfig="+c.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=namespace-controller,garbage-collector-controller")
	command.Stdout, command.Stderr = io.Discard, io.Discard
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
	})
}
