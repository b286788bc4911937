// Package crd holds the CustomResourceDefinitions, for programs that judge
// objects without an API server.
package crd

import _ "embed"

// TimeoutPolicies is the CustomResourceDefinition of TimeoutPolicy, in YAML, as
// it is installed.
//
//go:embed bases/timeout-operator.dev_timeoutpolicies.yaml
var TimeoutPolicies []byte
