// Package reload holds the client library's directory source against the real
// writer of ConfigMap volumes, k8s.io/kubernetes/pkg/volume/util.AtomicWriter.
// It is a module of its own, since nothing else here needs that library.
//
//	cd test/reload && GOWORK=off go test -race ./...
package reload
