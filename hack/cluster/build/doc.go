// Package build compiles the control plane's binaries from Go modules into a folder, and only what is not there yet.
//
// [Ensure] is the whole of it: it takes names (etcd, kube-apiserver, ...) and returns a folder that holds them all.
// A binary is reused when the stamp file beside it says that it was made from the same component version, Go
// version, flags, go.mod and go.sum. What a KUBEBUILDER_ASSETS folder holds is taken from there and never built.
//
// Decisions (stamps, disk needs, what a failure means, how much is left) are pure functions; module.go, lock.go and
// compile.go act on them. Safe to call from several processes at the same time: one builds, the others wait.
package build
