package httpclients

import (
	"errors"
	"testing"
	"time"

	restyv3 "resty.dev/v3"

	"github.com/timeout-operator/timeout-operator/clientlib/adaptertest"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// The timeout of resty v3 is in the context of each call: to the policy it is the
// caller's own deadline, after which nothing is repeated.
func TestTheTimeoutOfResty3IsTheCallersDeadline(t *testing.T) {
	server := adaptertest.NewHTTPServer(t, adaptertest.Setup{})
	hc := nethttp.NewClient(newClient(t, twoAttempts+`,"timeouts":{"total":"30s"}`))
	t.Cleanup(hc.CloseIdleConnections)
	client := restyv3.NewWithClient(hc).SetTimeout(200 * time.Millisecond)
	t.Cleanup(func() { _ = client.Close() })
	_, err := client.R().Get(server.Request(adaptertest.Call{Behaviour: adaptertest.Behaviour{Does: adaptertest.Waits, Delay: time.Minute}}).URL)
	var e *failure.Error
	if !errors.As(err, &e) || e.Kind != failure.TotalTimeout || e.Source != failure.SourceCaller || len(server.Seen()) > 1 {
		t.Errorf("it ended with %v, want TotalTimeout of the caller after one attempt", err)
	}
}
