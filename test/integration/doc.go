// Package integration tests the operator as it is installed: the manifests of
// config/default are applied with kubectl to a real API server, and the manager
// runs with the token of its own service account, so that a right that is
// missing there is missing here.
//
// KUBEBUILDER_ASSETS names the folder with etcd, kube-apiserver, kubectl and
// kube-controller-manager.
package integration
