package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// web asks the processes of the demo. There are no proxies on loopback.
var web = &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}

func (d *demo) startControlPlane(ctx context.Context) error {
	d.tell.step("Start a control plane: etcd and kube-apiserver, on loopback")
	args := []string{"up", "--without-controller-manager", "--control", "--exit-with-parent",
		"--port", strconv.Itoa(d.apiPort), "--dir", filepath.Join(d.folder.path, "cluster"), "--kubeconfig", d.kubeconfig()}
	d.tell.command(append([]string{"bin/cluster"}, args...)...)
	start := time.Now()
	p, err := d.children.start("cluster", exec.Command(d.bin("cluster"), args...))
	if err != nil {
		return err
	}
	if _, err := p.await(ctx, "a control plane that is ready", func(line string) bool { return line == "ready" }); err != nil {
		return err
	}
	d.kubectl = newKubectl(filepath.Join(d.assets, "kubectl"), d.root, d.kubeconfig(), filepath.Join(d.folder.path, "cache"), d.tell)
	if d.server, err = d.kubectl.ask(ctx, "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"); err != nil {
		return err
	}
	ca, err := d.kubectl.ask(ctx, "config", "view", "--raw", "--flatten", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")
	if err != nil {
		return err
	}
	pem, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return fmt.Errorf("read the certificate authority of the kubeconfig: %w", err)
	}
	d.ca = filepath.Join(d.folder.path, "ca.crt")
	if err := os.WriteFile(d.ca, pem, 0o644); err != nil {
		return err
	}
	d.tell.say(fmt.Sprintf("%s is ready after %s.", d.server, seconds(time.Since(start))))
	return nil
}

func (d *demo) install(ctx context.Context) error {
	d.tell.step("Install the operator, as in any cluster",
		"Nothing here starts pods, so the Deployment stays empty: the manager runs as a local process, with a token of",
		"the operator's own service account and no other rights.")
	if _, err := d.kubectl.show(ctx, "apply", "--server-side", "-k", "config/default"); err != nil {
		return err
	}
	if _, err := d.kubectl.show(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/timeoutpolicies.timeout-operator.dev", "crd/clientreports.timeout-operator.dev"); err != nil {
		return err
	}
	token, err := d.token(ctx, "--namespace", "timeout-system", "timeout-operator")
	if err != nil {
		return err
	}
	kubeconfig, err := writeIdentity(d.folder.path, "manager", d.server, d.ca, token)
	if err != nil {
		return err
	}
	args := []string{"--kubeconfig", kubeconfig, "--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0",
		"--report-debounce", "500ms", "--log-format", "json"}
	d.tell.command(append([]string{"bin/manager"}, args...)...)
	manager, err := d.children.start("manager", exec.Command(d.bin("manager"), args...))
	if err != nil {
		return err
	}
	return d.awaitReady(ctx, manager)
}

// token makes one that outlives the demo, since nobody renews it here.
func (d *demo) token(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"create", "token", "--duration", "24h"}, args...)
	d.tell.command(append([]string{"kubectl"}, args...)...)
	token, err := d.kubectl.ask(ctx, args...)
	if err != nil {
		return "", err
	}
	d.tell.say("(a token, not shown)")
	return strings.TrimSpace(token), nil
}

// awaitReady waits until the manager's /readyz says so.
func (d *demo) awaitReady(ctx context.Context, manager *child) error {
	start := time.Now()
	var starting struct {
		Msg    string `json:"msg"`
		Health string `json:"health"`
	}
	if _, err := manager.await(ctx, "the address of /readyz", func(line string) bool {
		return json.Unmarshal([]byte(line), &starting) == nil && starting.Msg == "starting"
	}); err != nil {
		return err
	}
	answer := ""
	err := poll(ctx, "a manager that is ready", func(ctx context.Context) (err error) {
		answer, err = fetch(ctx, "http://"+starting.Health+"/readyz")
		return err
	})
	if err != nil {
		return err
	}
	d.tell.check(answer == "ok", "the manager is ready", "ok", "/readyz says %s, %s after its start", answer, seconds(time.Since(start)))
	return nil
}

// fetch returns what a URL answers; every status but 200 is an error.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := web.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text := strings.TrimSpace(string(body))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, text)
	}
	return text, err
}

// fetchJSON decodes what a URL answers.
func fetchJSON(ctx context.Context, url string, into any) error {
	text, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read what %s answered: %w", url, err)
	}
	return nil
}
