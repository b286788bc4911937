package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// commandTimeout bounds one run of kubectl.
const commandTimeout = 90 * time.Second

// kubectl runs the real one, as the administrator of the demo's control plane.
type kubectl struct {
	path string   // of the binary
	root string   // where relative paths begin
	env  []string // with KUBECONFIG
	tell *teller
}

func newKubectl(path, root, kubeconfig, cache string, t *teller) *kubectl {
	// Nothing of the user's own configuration is read or written.
	env := append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+cache, "KUBERC=off")
	return &kubectl{path: path, root: root, env: env, tell: t}
}

func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Dir, cmd.Env = k.root, k.env
	cmd.SysProcAttr = childAttributes(syscall.SIGTERM)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// show prints the command, runs it and prints its output, which it returns. The
// error is an *exec.ExitError where kubectl itself failed.
func (k *kubectl) show(ctx context.Context, args ...string) (string, error) {
	k.tell.command(append([]string{"kubectl"}, args...)...)
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, err := k.command(ctx, args...).CombinedOutput()
	k.tell.output(string(output))
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return string(output), err
}

// ask runs a command whose output is for the demo itself.
func (k *kubectl) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, err := k.command(ctx, args...).Output()
	if err != nil {
		text := ""
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			text = ": " + strings.TrimSpace(string(failed.Stderr))
		}
		return "", fmt.Errorf("kubectl %s: %w%s", strings.Join(args, " "), err, text)
	}
	return string(output), nil
}

// get reads one object.
func (k *kubectl) get(ctx context.Context, into any, args ...string) error {
	text, err := k.ask(ctx, append(append([]string{"get"}, args...), "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read what kubectl get %s printed: %w", strings.Join(args, " "), err)
	}
	return nil
}

// writeIdentity writes a kubeconfig that has a token and nothing else.
func writeIdentity(dir, name, server, ca, token string) (string, error) {
	tokenFile, path := filepath.Join(dir, name+".token"), filepath.Join(dir, name+".kubeconfig")
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{"server": server, "certificate-authority": ca}}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"tokenFile": tokenFile}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err == nil {
		err = errors.Join(os.WriteFile(tokenFile, []byte(token), 0o600), os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}
