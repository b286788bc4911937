package operator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestReadinessSaysWhyAndLogsEachChangeOnce(t *testing.T) {
	log, out := newTestLogger(t, time.Now)
	r := newReadiness(log)
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	if code, text := ask(); code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "Starting: ") {
		t.Errorf("at first: %d %s", code, text)
	}
	for range 3 {
		r.notReady(&NotReadyError{ReasonCRDMissing, "timeoutpolicies is not installed"})
	}
	r.notReady(&NotReadyError{ReasonCRDMissing, "clientreports is not installed"})
	if code, text := ask(); code != http.StatusServiceUnavailable || text != "CRDMissing: clientreports is not installed\n" {
		t.Errorf("without a kind: %d %s", code, text)
	}
	// The text of a network error differs from try to try.
	r.notReady(&NotReadyError{ReasonUnreachable, "from port 40001: connection reset"})
	r.notReady(&NotReadyError{ReasonUnreachable, "from port 40002: connection reset"})
	r.ready()
	r.ready()
	if code, text := ask(); code != http.StatusOK || text != "ok\n" {
		t.Errorf("in the end: %d %s", code, text)
	}
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("%d lines: %s", got, out)
	}
}
