// Package mount does the kubelet's part for the ConfigMap volumes of a pod that runs without one: it watches the
// ConfigMaps and projects them into folders with the kubelet's own payload and AtomicWriter code, as for volumes with
// `optional: true` and no items.
//
// [Project] is one projection, for tests that drive the writer themselves; [Mounter] keeps folders up to date from an
// API server. What the kubelet adds on its side stays out: the 0 to 90 s until it looks (Mounter.Delay imitates that),
// the mount itself, fsGroup ownership.
package mount
