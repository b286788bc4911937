// Package kubesource brings documents to a client by watching their ConfigMap
// through the Kubernetes API.
package kubesource
