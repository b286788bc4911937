package nethttp_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// golang/go#69205: net/http's own idle limit has no effect on HTTP/2. Ours is that
// of a body, and holds for each stream of a connection by itself.
//
// Case T22.
func TestTheIdleGapHoldsOnHTTP2(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			url, base := serve(t, protocol, &clienttest.Origin{})
			l := overSockets(t, `"timeouts":{"bodyIdle":"100ms"}`, base)
			silent, err := l.http.Get(url + "/drip?n=1&every=1h")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = io.ReadAll(silent.Body)
			if e := failure(t, err); e.Kind != kinds.ReadTimeout || e.Field != "timeouts.bodyIdle" || time.Since(began) < 100*time.Millisecond {
				t.Errorf("the silent stream: %v after %s", e, time.Since(began))
			}
			_ = silent.Body.Close()
			// What shares its connection goes on.
			lively, err := l.http.Get(url + "/ok")
			if err != nil || lively.StatusCode != http.StatusOK {
				t.Fatalf("the next call: %v %v", lively, err)
			}
			if body, err := readAll(t, lively); body != "ok\n" || err != nil {
				t.Errorf("the next body: %q %v", body, err)
			}
		})
	}
}
