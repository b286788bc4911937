package clientlib_test

import (
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A document with one knob that one adapter does not have is refused whole, and
// the report says all that is wrong with it, not only what is said first.
func TestARefusedDocumentsGapsAreReported(t *testing.T) {
	good := policy(t, 1, `,"timeouts":{"total":"1s"}`)
	withClient(t, source.Update{Document: good}, func(t *testing.T, f *fixture) {
		f.UseAdapter(capability.NetHTTP())
		f.UseAdapter(capability.GRPC())
		if len(f.notes.last.Adapters) != 2 || len(f.notes.last.Upstreams) != 0 {
			t.Errorf("reported %d adapters and gaps %+v, want 2 without a gap", len(f.notes.last.Adapters), f.notes.last.Upstreams)
		}
		f.feed.say(source.Update{Document: policy(t, 2, `,"onUnsupported":"Reject",
			"timeouts":{"total":"2s","connect":"1s","responseHeader":"1s"},"retry":{"maxAttempts":2,"retryableKinds":["WriteTimeout"]}`)})
		status := f.Status()
		if status.State != clientlib.StateStale || status.Reason != clientlib.ReasonUnsupported || status.Revision != good.Revision {
			t.Errorf("state %s for %s, revision %s; want Stale, Unsupported and the first document", status.State, status.Reason, status.Revision)
		}
		if total := limit(f.Client); total != time.Second {
			t.Errorf("the total in force is %s, want the first document's 1s", total)
		}
		for _, word := range []string{"orders", "adapter nethttp", "WriteTimeout"} {
			if !strings.Contains(status.Message, word) {
				t.Errorf("%q does not name %s", status.Message, word)
			}
		}
		gaps := map[string]report.Upstream{}
		for _, u := range f.notes.last.Upstreams {
			gaps[u.Adapter] = u
		}
		if u := gaps["grpc"]; len(u.Unsupported) != 2 || len(u.DeadKinds) != 1 {
			t.Errorf("reported of grpc: %+v, want two fields and a kind", u)
		}
		if u := gaps["nethttp"]; len(u.Unsupported) != 0 || len(u.DeadKinds) != 1 {
			t.Errorf("reported of nethttp: %+v, want a kind", u)
		}
		if p := f.notes.last.Policies; len(p) != 1 || p[0].State != report.PolicyRejected || p[0].Generation != 2 {
			t.Errorf("policies are reported as %+v, want generation 2 rejected", p)
		}

		f.feed.say(source.Update{Document: policy(t, 3, `,"onUnsupported":"Reject","timeouts":{"total":"2s"}`)})
		if s := f.Status(); s.State != clientlib.StateReady || len(f.notes.last.Upstreams) != 0 {
			t.Errorf("state %s, gaps %+v after the knob was taken away", s.State, f.notes.last.Upstreams)
		}
	})
}
