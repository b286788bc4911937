package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
)

func TestCredentialsTrustEachOtherAndKeepTheAuthority(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	first, err := loadCredentials(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(first.ca.parsed)
	saKey, _ := os.ReadFile(first.saKeyFile)

	second, err := loadCredentials(dir, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(second.saKeyFile); string(again) != string(saKey) || len(saKey) == 0 {
		t.Error("the service-account key changed, so tokens issued before are worthless")
	}
	serving := parse(t, second.serving)
	if _, err := serving.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1", CurrentTime: now}); err != nil {
		t.Errorf("the new serving certificate by the old authority: %v", err)
	}
	admin := parse(t, second.admin)
	if _, err := admin.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: now}); err != nil {
		t.Errorf("the administrator's certificate: %v", err)
	}
	if admin.Subject.CommonName != "admin" || !slices.Equal(admin.Subject.Organization, []string{"system:masters"}) {
		t.Errorf("the administrator is %v", admin.Subject)
	}
	if _, err := tls.X509KeyPair(second.controllers.cert, second.controllers.key); err != nil {
		t.Errorf("the controller-manager's pair: %v", err)
	}
	for _, name := range []string{"ca.key", "sa.key", "apiserver.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}
	}
	_, err = loadCredentials(dir, now.Add(validity))
	if err == nil || !strings.Contains(err.Error(), "remove the state folder") {
		t.Errorf("an authority about to expire: error %v, want one that says what to do", err)
	}
}

func TestABrokenAuthorityIsNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadCredentials(dir, time.Now()); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "ca.crt")) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestArguments(t *testing.T) {
	f, creds := files{"/state"}, &credentials{caFile: "/state/pki/ca.crt"}
	plain := arguments(APIServer, Options{}, f, creds, 6443)
	for _, want := range []string{"--secure-port=6443", "--bind-address=127.0.0.1", "--authorization-mode=RBAC", "--client-ca-file=/state/pki/ca.crt"} {
		if !slices.Contains(plain, want) {
			t.Errorf("the API server's arguments lack %s", want)
		}
	}
	if i := slices.IndexFunc(plain, func(a string) bool { return strings.HasPrefix(a, "--audit") }); i >= 0 {
		t.Errorf("%s although no audit log is wanted", plain[i])
	}
	audited := arguments(APIServer, Options{AuditLog: "/a.log", APIServerArgs: []string{"--v=3"}}, f, creds, 6443)
	if !slices.Contains(audited, "--audit-log-path=/a.log") || !slices.Contains(audited, "--audit-policy-file=/state/audit-policy.yaml") {
		t.Errorf("no audit log in %v", audited)
	}
	if audited[len(audited)-1] != "--v=3" {
		t.Errorf("the caller's argument must come last, to win: %v", audited)
	}
	managed := arguments(ControllerManager, Options{ControllerManagerArgs: []string{"--controllers=*"}}, f, creds, 6443)
	if managed[len(managed)-1] != "--controllers=*" || !slices.Contains(managed, "--leader-elect=false") {
		t.Errorf("the controller-manager's arguments: %v", managed)
	}
}

func TestOnlyOurOwnKubeconfigIsOverwritten(t *testing.T) {
	mine := kubeconfig("https://127.0.0.1:6443", []byte("ca"), pair{[]byte("cert"), []byte("key")})
	tests := []struct {
		name    string
		content []byte
		err     error
		want    bool
	}{
		{"absent", nil, os.ErrNotExist, true},
		{"ours", mine, nil, true},
		{"somebody's", []byte("apiVersion: v1\ncurrent-context: production\n"), nil, false},
		{"somebody's that knows ours too", []byte("current-context: production\n# current-context: timeout-operator-local\n"), nil, false},
		{"empty", nil, nil, false},
		{"unreadable", nil, os.ErrPermission, false},
	}
	for _, tt := range tests {
		if got := ours(tt.content, tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWritePrivateTightensTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePrivate(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info, err)
	}
}

func TestChoosePort(t *testing.T) {
	free, err := choosePort(0)
	if err != nil || free == 0 {
		t.Fatalf("a free port: %d, %v", free, err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	_, err = choosePort(taken)
	if e, ok := errors.AsType[*PortTakenError](err); !ok || e.Port != taken || strings.Contains(err.Error(), "\n") {
		t.Errorf("a taken port: error %v, want one line of PortTakenError", err)
	}
}

func TestTakenMeanwhile(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{&DeathError{Component: APIServer, Log: "failed to create listener: listen tcp 127.0.0.1:1: bind: address already in use"}, true},
		{&DeathError{Component: APIServer, Log: "unknown flag"}, false},
		{&DeathError{Component: Etcd, Log: "address already in use"}, false},
		{errors.New("address already in use"), false},
	}
	for _, tt := range tests {
		if got := takenMeanwhile(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestUnready(t *testing.T) {
	body := "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed\n"
	if got, want := unready("/readyz", "500 Internal Server Error", body), "/readyz waits for etcd poststarthook/rbac/bootstrap-roles"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := unready("/api", "404 Not Found", "{}"), "/api answers 404 Not Found"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAStateFolderHasOneUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := claimState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimState(dir); err == nil || !strings.Contains(err.Error(), "used by another control plane") {
		t.Errorf("error %v, want one that says that the folder is used", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := claimState(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.lock.Close()
}

func TestATemporaryStateFolderGoesWithItsUser(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	released, err := claimState("")
	if err != nil {
		t.Fatal(err)
	}
	if err := released.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(released.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", released.dir, err)
	}

	abandoned, err := claimState("")
	if err != nil {
		t.Fatal(err)
	}
	abandoned.lock.Close() // as when its process is killed
	used, err := claimState("")
	if err != nil {
		t.Fatal(err)
	}
	other, err := claimState("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned.dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a killed process is still there (%v)", err)
	}
	if _, err := os.Stat(used.dir); err != nil {
		t.Errorf("the folder of a living process: %v", err)
	}
	for _, s := range []*state{used, other} {
		if err := s.release(); err != nil {
			t.Error(err)
		}
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	s := newSpawner()
	defer s.close() // the shell has ended by then
	log := filepath.Join(dir, "log")
	p, err := s.spawn("/bin/sh", []string{"-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"}, dir, log)
	if err != nil {
		t.Fatal(err)
	}
	go p.wait()
	clustertest.Eventually(t, 5*time.Second, "the shell is up", func() error {
		if tail(log, 1) == "deaf" {
			return nil
		}
		return errors.New("says nothing")
	})
	if !p.stop(t.Context(), 50*time.Millisecond) {
		t.Error("stop says that it was not killed")
	}
	if p.running() || !p.asked.Load() {
		t.Error("it runs, or its end would be reported as a death")
	}
}

func parse(t *testing.T, p pair) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(p.cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
