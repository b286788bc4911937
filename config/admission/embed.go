// Package admission holds the admission policies, for programs that judge
// objects without an API server.
package admission

import _ "embed"

// TimeoutPolicyWarnings is the ValidatingAdmissionPolicy that warns of legal but
// doubtful policies, and its binding, in YAML, as they are installed.
//
//go:embed timeoutpolicy_warnings.yaml
var TimeoutPolicyWarnings []byte
