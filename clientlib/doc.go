// Package clientlib loads the timeout policy of a client, swaps it in while the
// program runs, and enforces it in the process: no proxy, no sidecar.
//
//	client, err := clientlib.New(ctx, "checkout")
//	if err != nil { … }
//	defer client.Close()
//	httpClient := nethttp.NewClient(client)
//
// In a pod with the operator's ConfigMaps mounted there is nothing else to say.
// The adapters (package nethttp and the modules below this one) enforce the
// policy on calls; a Client holds the policy, its state and its reports.
//
// The library does not log a failed call: the caller decides. It logs a policy
// that changes, and once why one could not be applied.
package clientlib
