package build

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the binaries that Ensure knows.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kubectl           = "kubectl"
	// Mounter is this module's own cmd/configmap-mounter. It is a binary of its own because it links the kubelet's
	// volume code, which would make the first start of everything else wait for 800 packages without a word.
	Mounter = "configmap-mounter"
)

// modulePath is this module's own path; a target of it has no version but a digest of its sources.
const modulePath = "github.com/timeout-operator/timeout-operator/hack/cluster"

const kubernetes = "k8s.io/kubernetes"

// target is one binary: which package of which module it is linked from, and how large it gets.
type target struct {
	name    string
	pkg     string
	module  string
	sources []string // folders whose Go files are hashed, for targets of this module
	bytes   uint64   // size of the linked binary, measured on linux/amd64 with Kubernetes 1.37.2
}

var targets = []target{
	{name: Etcd, pkg: "go.etcd.io/etcd/server/v3", module: "go.etcd.io/etcd/server/v3", bytes: 25 << 20},
	{name: APIServer, pkg: kubernetes + "/cmd/kube-apiserver", module: kubernetes, bytes: 114 << 20},
	{name: ControllerManager, pkg: kubernetes + "/cmd/kube-controller-manager", module: kubernetes, bytes: 101 << 20},
	{name: Kubectl, pkg: kubernetes + "/cmd/kubectl", module: kubernetes, bytes: 60 << 20},
	{name: Mounter, pkg: modulePath + "/cmd/configmap-mounter", module: modulePath, sources: []string{"cmd/configmap-mounter", "mount"}, bytes: 29 << 20},
}

// DefaultNames are the four binaries of a control plane, what Ensure builds when it is given no name.
func DefaultNames() []string { return []string{Etcd, APIServer, ControllerManager, Kubectl} }

// UnknownNameError is returned for a name that is not a binary of the control plane.
type UnknownNameError struct{ Name string }

func (e *UnknownNameError) Error() string {
	known := make([]string, len(targets))
	for i, t := range targets {
		known[i] = t.name
	}
	return fmt.Sprintf("there is no binary %q to build; known are: %s", e.Name, strings.Join(known, " "))
}

// lookup returns the targets with these names, in the order in which they share most work, each once.
func lookup(names []string) ([]target, error) {
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.name == name }) {
			return nil, &UnknownNameError{Name: name}
		}
	}
	var found []target
	for _, t := range targets {
		if slices.Contains(names, t.name) {
			found = append(found, t)
		}
	}
	return found, nil
}
