package controlplane

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// clusterName marks the kubeconfigs that this package wrote and may overwrite.
const clusterName = "timeout-operator-local"

// controllers are the ones without which an API server does not behave like a cluster. There is no node here, so those
// that mind pods and nodes stay off; they would delete the pods that tests pretend to run. "*" turns all on.
var controllers = []string{
	"garbage-collector-controller", "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller", "validatingadmissionpolicy-status-controller",
}

// files are the places in a state folder. The components run in the folder and are given relative names where the
// length of a name is limited (a unix socket's is, to 107 bytes).
type files struct{ dir string }

func (f files) kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }
func (f files) controllersKubeconfig() string {
	return filepath.Join(f.dir, "controller-manager.kubeconfig")
}
func (f files) auditPolicy() string    { return filepath.Join(f.dir, "audit-policy.yaml") }
func (f files) pki() string            { return filepath.Join(f.dir, "pki") }
func (f files) log(c Component) string { return filepath.Join(f.dir, "logs", string(c)+".log") }
func (f files) etcdSocket() string     { return filepath.Join(f.dir, etcdSocket) }
func serverURL(port int) string        { return "https://127.0.0.1:" + strconv.Itoa(port) }

const (
	etcdSocket     = "etcd.sock"
	etcdPeerSocket = "etcd-peer.sock"
)

// arguments returns the command line of a component.
func arguments(c Component, o Options, f files, creds *credentials, port int) []string {
	switch c {
	case Etcd:
		return etcdArguments()
	case APIServer:
		return apiServerArguments(o, f, creds, port)
	default:
		return controllerManagerArguments(o, f, creds)
	}
}

func etcdArguments() []string {
	client, peer := "unix://"+etcdSocket, "unix://"+etcdPeerSocket
	return []string{
		"--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}
}

func apiServerArguments(o Options, f files, creds *credentials, port int) []string {
	args := []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + creds.servingCertFile, "--tls-private-key-file=" + creds.servingKeyFile,
		"--client-ca-file=" + creds.caFile,
		"--service-account-key-file=" + creds.saKeyFile, "--service-account-signing-key-file=" + creds.saKeyFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none", // 127.0.0.1 cannot be an endpoint
	}
	if o.AuditLog != "" {
		args = append(args, "--audit-policy-file="+f.auditPolicy(), "--audit-log-path="+o.AuditLog)
	}
	return append(args, o.APIServerArgs...)
}

func controllerManagerArguments(o Options, f files, creds *credentials) []string {
	return append([]string{
		"--kubeconfig=" + f.controllersKubeconfig(),
		"--service-account-private-key-file=" + creds.saKeyFile,
		"--root-ca-file=" + creds.caFile,
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
	}, o.ControllerManagerArgs...)
}

// auditPolicy logs who did what to which object, once per request and without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func kubeconfig(url string, ca []byte, client pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s
`, clusterName, url, encode(ca), encode(client.cert), encode(client.key))
}

// ours reports whether a kubeconfig may be overwritten: it is not there, or this package wrote it.
func ours(content []byte, err error) bool {
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return slices.Contains(strings.Split(string(content), "\n"), "current-context: "+clusterName)
}

// writeConfig writes the files that the components and their users read.
func writeConfig(o Options, f files, creds *credentials, port int) error {
	admin := kubeconfig(serverURL(port), creds.ca.cert, creds.admin)
	contents := map[string][]byte{
		f.kubeconfig():            admin,
		f.controllersKubeconfig(): kubeconfig(serverURL(port), creds.ca.cert, creds.controllers),
		f.auditPolicy():           []byte(auditPolicy),
	}
	if o.Kubeconfig != "" {
		contents[o.Kubeconfig] = admin
	}
	for path, content := range contents {
		if err := writePrivate(path, content); err != nil {
			return err
		}
	}
	return nil
}

// writePrivate replaces the file at once, readable by its owner only whatever it was before.
func writePrivate(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // nothing to remove after a success
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
