package policytest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/clienttest/policytest"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// What a program's own test sees of the retries of a policy.
func TestEventsTellOfARetriedCall(t *testing.T) {
	network := clienttest.NewNetwork(&clienttest.Origin{})
	defer network.Close()
	var events policytest.Events
	var timers clienttest.Timers
	client := policytest.NewClient(t, policytest.Rules(t, `"retry":{"maxAttempts":2,"backoff":{"initial":"1ms"}}`), &events, &timers)
	defer client.Close()

	shop := &http.Client{Transport: nethttp.NewTransport(client, network.Transport())}
	defer shop.CloseIdleConnections()
	resp, err := shop.Get("http://orders/status")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	told := fmt.Sprintln(events.Upstreams(), events.Started(), len(events.Attempts()), len(events.Calls()), len(events.Bodies()), events.Skips(), timers.Live())
	if want := "[orders] 1 2 1 1 attempts 0\n"; told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}
