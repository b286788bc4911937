// Package controllers acts on what package plan decides: it gathers the facts
// of a namespace, has them planned, and writes the difference.
//
// The unit of work is the namespace, since a document depends on all policies
// of its namespace: every event maps to a request that has a Namespace and no
// Name. A reconcile writes only what differs from what is stored, by
// server-side apply with one field manager; nothing of one namespace, and no
// single object, keeps the rest from being done. Documents come before statuses,
// also across namespaces, and what was written here has nothing planned again.
//
// What the operator owns are ConfigMaps with the label v1alpha1.LabelManagedBy
// and the status of policies. A ConfigMap without the label is somebody
// else's, whatever its name. Nothing has a finalizer or an owner reference:
// policies, namespaces and CustomResourceDefinitions can be deleted in any
// order, with or without a running operator.
package controllers
