package capability_test

import (
	"fmt"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// pigeons is the record of an adapter of somebody else's.
func pigeons() capability.Record {
	return capability.Record{
		Adapter: "pigeon",
		Library: "example.com/pigeon",
		Support: map[capability.Name]capability.Support{
			capability.TimeoutTotal: {Level: capability.Emulated},
			capability.DeadlineHard: {Level: capability.Degraded, Note: "a pigeon under way comes back late"},
		},
		Emits:    failure.NewSet(failure.TotalTimeout, failure.Disconnected),
		Collapse: map[failure.Kind]failure.Kind{failure.ConnectError: failure.Disconnected},
	}
}

// A record that is registered is in the matrix, behind those that ship.
func ExampleRegister() {
	if err := capability.Register(pigeons()); err != nil {
		fmt.Println(err)
	}
	records := capability.Matrix()
	last := records[len(records)-1]
	fmt.Println(last.Adapter, last.Level(capability.TimeoutTotal), last.Level(capability.HTTP2))
	fmt.Println(capability.Register(pigeons()))
	// Output:
	// pigeon Emulated Absent
	// capability record of pigeon: the name is taken
}

// A document is held against the adapters that a client uses.
func ExampleAssess() {
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"orders","hosts":["orders"],"onUnsupported":"Reject",
		"timeouts":{"total":"1s","connect":"100ms"},"retry":{"maxAttempts":2,"retryableKinds":["ConnectError","WriteTimeout"]}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	report := capability.Assess(doc, []capability.Record{pigeons()})
	for _, gap := range report.Upstreams[0].Dropped {
		fmt.Println(gap.Field, gap.Capability)
	}
	fmt.Println("dead:", report.Upstreams[0].DeadKinds)
	fmt.Println(report.Rejection())
	// Output:
	// retry.maxAttempts RetryOwned
	// timeouts.connect TimeoutConnect
	// timeouts.scope DeadlineCoversBody
	// dead: [WriteTimeout]
	// upstream orders: adapter pigeon cannot honour retry.maxAttempts (RetryOwned), and onUnsupported is Reject
}
