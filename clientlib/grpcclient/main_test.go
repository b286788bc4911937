package grpcclient_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test leaves a goroutine behind. Tests wait far more than they
// compute, so more of them run at a time than there are processors.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m)
}
