// Package kubesource brings documents to a client by watching their ConfigMaps
// through the Kubernetes API: a change is in force in less than a second, where
// a mounted ConfigMap takes the kubelet a minute.
//
//	client, err := clientlib.New(ctx, "checkout", clientlib.WithSource(
//		source.Prefer(kubesource.New("checkout"), source.Dir("/etc/timeouts"))))
//
// The pod's service account has to be allowed to list and watch the ConfigMaps
// timeouts-<client> and timeouts, and nothing else:
//
//	rules:
//	- apiGroups: [""]
//	  resources: [configmaps]
//	  resourceNames: [timeouts, timeouts-checkout]
//	  verbs: [list, watch]
//
// It is a module of its own, since client-go is large and sensitive to its
// version.
package kubesource
