// Package controlplane runs etcd, kube-apiserver and kube-controller-manager on loopback, for demos and tests.
//
// It needs their binaries (package build) and nothing else: certificates and keys are made in process, etcd is
// reached by a unix socket in the state folder, so that the API server's port is the only one. Authorization is RBAC,
// authentication by client certificate and service-account token, as on a real cluster; there is no scheduler and no
// kubelet.
//
// [Start] brings everything up and returns when the API server says that it is ready. Each component can then be
// stopped, killed and started again on the same port and data; [ControlPlane.Died] tells of one that ended by itself.
// [ControlPlane.Close] ends all. On Linux no component outlives the process, not even one that gets SIGKILL.
//
// All methods are safe for concurrent use.
package controlplane
