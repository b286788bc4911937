package controlplane_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/controlplane"
	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
)

func TestControlPlaneBehavesLikeACluster(t *testing.T) {
	clustertest.NoLeaks(t)
	audit := filepath.Join(t.TempDir(), "audit.log")
	cp := start(t, controlplane.Options{AuditLog: audit})

	do(t, cp, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`, http.StatusCreated)
	t.Run("a namespace gets its service account and root certificate", func(t *testing.T) {
		eventually(t, cp, "/api/v1/namespaces/shop/serviceaccounts/default", http.StatusOK)
		eventually(t, cp, "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt", http.StatusOK)
	})
	t.Run("what belongs to a deleted object is collected", func(t *testing.T) {
		owner := do(t, cp, http.MethodPost, "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"owner"}}`, http.StatusCreated)
		do(t, cp, http.MethodPost, "/api/v1/namespaces/shop/configmaps",
			fmt.Sprintf(`{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]}}`, owner.Metadata.UID), http.StatusCreated)
		do(t, cp, http.MethodDelete, "/api/v1/namespaces/shop/configmaps/owner", "", http.StatusOK)
		eventually(t, cp, "/api/v1/namespaces/shop/configmaps/owned", http.StatusNotFound)
	})
	t.Run("a token of a service account is let in, and only as far as RBAC says", func(t *testing.T) {
		token := do(t, cp, http.MethodPost, "/api/v1/namespaces/shop/serviceaccounts/default/token", `{"spec":{}}`, http.StatusCreated).Status.Token
		if got := status(t, cp, token, "/api/v1/namespaces/shop/configmaps"); got != http.StatusForbidden {
			t.Errorf("list with the token: status %d, want 403", got)
		}
		if got := status(t, cp, token+"x", "/api/v1/namespaces/shop/configmaps"); got != http.StatusUnauthorized {
			t.Errorf("list with a wrong token: status %d, want 401", got)
		}
	})
	t.Run("a namespace can be deleted", func(t *testing.T) {
		do(t, cp, http.MethodDelete, "/api/v1/namespaces/shop", "", http.StatusOK)
		eventually(t, cp, "/api/v1/namespaces/shop", http.StatusNotFound)
	})
	t.Run("the audit log has each request", func(t *testing.T) {
		content, err := os.ReadFile(audit)
		if err != nil {
			t.Fatal(err)
		}
		creations := 0
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, `"verb":"create"`) && strings.Contains(line, `"name":"owner"`) && strings.Contains(line, `"level":"Metadata"`) {
				creations++
			}
		}
		if creations != 1 {
			t.Errorf("%d creations of the object in the audit log, want 1", creations)
		}
	})
	stop(t, cp)
}

func TestComponentsCanBeKilledAndStartedAgainOnTheSamePortAndData(t *testing.T) {
	clustertest.NoLeaks(t)
	cp := start(t, controlplane.Options{WithoutControllerManager: true})
	url := cp.URL()
	do(t, cp, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"kept"}}`, http.StatusCreated)

	before := cp.PID(controlplane.APIServer)
	cp.Kill(controlplane.APIServer)
	if cp.Running(controlplane.APIServer) || cp.PID(controlplane.APIServer) != 0 {
		t.Error("the API server runs after Kill")
	}
	if err := cp.Start(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if cp.URL() != url || cp.PID(controlplane.APIServer) == before {
		t.Errorf("at %s as process %d, want another process at %s", cp.URL(), cp.PID(controlplane.APIServer), url)
	}
	eventually(t, cp, "/api/v1/namespaces/kept", http.StatusOK)

	cp.Kill(controlplane.Etcd)
	if err := cp.Start(t.Context(), controlplane.Etcd); err != nil {
		t.Fatal(err)
	}
	eventually(t, cp, "/api/v1/namespaces/kept", http.StatusOK)
	if err := cp.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	eventually(t, cp, "/api/v1/namespaces/kept", http.StatusOK)

	if err := cp.Start(t.Context(), controlplane.APIServer); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second start: error %v", err)
	}
	if err := cp.Start(t.Context(), controlplane.ControllerManager); err == nil || !strings.Contains(err.Error(), "not a component of this control plane") {
		t.Errorf("start of a component that was left out: error %v", err)
	}
	select {
	case death := <-cp.Died():
		t.Errorf("reported although it was asked for: %v", death)
	default:
	}
	stop(t, cp)
}

func TestAComponentThatDiesIsReportedWithItsLog(t *testing.T) {
	clustertest.NoLeaks(t)
	cp := start(t, controlplane.Options{WithoutControllerManager: true})
	process, err := os.FindProcess(cp.PID(controlplane.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil { // by somebody else, as it were
		t.Fatal(err)
	}
	select {
	case err := <-cp.Died():
		death, ok := errors.AsType[*controlplane.DeathError](err)
		if !ok || death.Component != controlplane.APIServer || death.State != "signal: killed" || death.Log == "" {
			t.Errorf("%v, want the API server's death with its log", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing reported")
	}
	stop(t, cp)
}

func TestAStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	clustertest.NoLeaks(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Bin: clustertest.Binaries(t), WithoutControllerManager: true, APIServerArgs: []string{"--no-such-flag"},
	})
	death, ok := errors.AsType[*controlplane.DeathError](err)
	if !ok || death.Component != controlplane.APIServer || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error %v, want the API server's own words", err)
	}
	if left, _ := os.ReadDir(temporary); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAStartThatIsRefused(t *testing.T) {
	bin := clustertest.Binaries(t)
	theirs := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(theirs, []byte("current-context: production\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		o    controlplane.Options
		want string
	}{
		{"binaries missing", controlplane.Options{Bin: t.TempDir()}, "find the binary of etcd"},
		{"somebody's kubeconfig", controlplane.Options{Bin: bin, Kubeconfig: theirs}, "did not write: name another file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := controlplane.Start(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if content, _ := os.ReadFile(theirs); string(content) != "current-context: production\n" {
		t.Errorf("somebody's kubeconfig is now %q", content)
	}
}

func TestAKeptStateFolderKeepsObjectsAndTokens(t *testing.T) {
	clustertest.NoLeaks(t)
	// Longer than a unix socket's path may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 20), "state")
	config := filepath.Join(t.TempDir(), "kubeconfig")
	o := controlplane.Options{Dir: dir, Kubeconfig: config, WithoutControllerManager: true}
	cp := start(t, o)
	do(t, cp, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"kept"}}`, http.StatusCreated)
	token := do(t, cp, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/kept/token", `{"spec":{}}`, http.StatusCreated).Status.Token
	if cp.Kubeconfig() != config {
		t.Errorf("kubeconfig %s, want %s", cp.Kubeconfig(), config)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig %v, %v; want mode 0600", info, err)
	}
	if err := cp.Close(); err != nil {
		t.Fatal(err)
	}
	clustertest.NoProcessIn(t, dir)

	cp = start(t, o) // overwrites the kubeconfig, which is its own
	if got := status(t, cp, token, "/api/v1/namespaces/default/configmaps"); got != http.StatusForbidden {
		t.Errorf("the old token: status %d, want 403 (known, not allowed)", got)
	}
	if err := cp.Close(); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	o.Bin = clustertest.Binaries(t)
	o.Progress = func(line string) { t.Log(line) }
	cp, err := controlplane.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cp.Close() })
	return cp
}

// stop closes a control plane with a temporary state folder and checks that nothing is left of it.
func stop(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	if err := cp.Close(); err != nil {
		t.Error(err)
	}
	clustertest.NoProcessIn(t, cp.Dir())
	if _, err := os.Stat(cp.Dir()); !os.IsNotExist(err) {
		t.Errorf("the state folder is still there (%v)", err)
	}
	if err := cp.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := cp.Start(t.Context(), controlplane.Etcd); err == nil {
		t.Error("a component could be started after Close")
	}
}

type object struct {
	Metadata struct{ UID string }
	Status   struct{ Token string }
}

// do makes a request as administrator.
func do(t *testing.T, cp *controlplane.ControlPlane, method, path, body string, want int) object {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, cp.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := cp.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != want {
		t.Fatalf("%s %s: %s, want %d: %s", method, path, response.Status, want, content)
	}
	var made struct {
		object
		Status json.RawMessage // an object, or the word Success
	}
	if err := json.Unmarshal(content, &made); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	_ = json.Unmarshal(made.Status, &made.object.Status)
	return made.object
}

func eventually(t *testing.T, cp *controlplane.ControlPlane, path string, want int) {
	t.Helper()
	clustertest.Eventually(t, 30*time.Second, fmt.Sprintf("status %d of %s", want, path), func() error {
		response, err := cp.Client().Get(cp.URL() + path)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != want {
			return errors.New(response.Status)
		}
		return nil
	})
}

// status is the answer to a bearer of the token, without the administrator's certificate.
func status(t *testing.T, cp *controlplane.ControlPlane, token, path string) int {
	t.Helper()
	transport := cp.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = nil
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cp.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
