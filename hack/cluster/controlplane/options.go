package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Component is one process of the control plane; its value is the name of the binary.
type Component string

// The components, in the order in which they start.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
)

// Options of Start. Only Bin must be set.
type Options struct {
	Bin                      string   // folder of the binaries
	Dir                      string   // state folder, kept and reusable; empty: a temporary one that Close deletes
	Kubeconfig               string   // where to write the administrator's kubeconfig besides Dir/kubeconfig; empty: only there
	Port                     int      // of the API server on 127.0.0.1; 0: a free one
	WithoutControllerManager bool     // no garbage collection, namespace deletion, default service accounts
	AuditLog                 string   // file to which the API server appends an event per request, level Metadata; empty: none
	APIServerArgs            []string // more arguments, after ours
	ControllerManagerArgs    []string // more arguments, after ours

	// Progress gets one line for people per step; nil: silent.
	Progress func(line string)
	// StartTimeout is how long a component may take until it is ready; 0: one minute.
	StartTimeout time.Duration
	// StopTimeout is how long a component may take to end before it is killed; 0: 20 seconds.
	StopTimeout time.Duration
}

func (o Options) complete() (Options, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 20 * time.Second
	}
	for _, path := range []*string{&o.Bin, &o.Dir, &o.Kubeconfig, &o.AuditLog} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = absolute
	}
	for _, c := range o.components() {
		if _, err := os.Stat(filepath.Join(o.Bin, string(c))); err != nil {
			return o, fmt.Errorf("find the binary of %s: %w; build it first", c, err)
		}
	}
	return o, nil
}

// components are those to run, in the order in which they start.
func (o Options) components() []Component {
	if o.WithoutControllerManager {
		return []Component{Etcd, APIServer}
	}
	return []Component{Etcd, APIServer, ControllerManager}
}
