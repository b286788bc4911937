package clientlib

import (
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Error is the failure of a call, whichever adapter made it: find it with
// errors.As. See [failure.Error].
type Error = failure.Error

// Matrix returns what each adapter can enforce, readable without importing the
// adapter's library. The records must not be changed.
func Matrix() []capability.Record { return capability.Matrix() }
