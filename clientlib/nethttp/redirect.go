package nethttp

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// redirectGrace is how long a call whose response was a redirect waits, after
// the response was closed, for http.Client to follow it. http.Client closes
// the response right before it makes the next request, so this is only ever
// spent by callers that do not follow.
const redirectGrace = time.Second

// hop is the seam between two requests of a redirected call. http.Client hands
// the response of a hop to the request of the next one (Request.Response);
// that response's body is our attempt, and it leads back to the call.
type hop struct {
	// waiting says that the call is not settled since it may go on.
	waiting  atomic.Bool
	outcome  engine.Outcome
	decision engine.Decision
}

func (h *hop) await(o engine.Outcome, d engine.Decision) {
	h.outcome, h.decision = o, d
	h.waiting.Store(true)
}

// closed settles a call that nobody went on with.
func (h *hop) closed(f *flight) {
	if !h.waiting.Load() {
		return
	}
	f.transport.engine.Clock().AfterFunc(redirectGrace, func() {
		if h.waiting.CompareAndSwap(true, false) {
			f.Settle(h.outcome, engine.Attribution{}, h.decision)
		}
	})
}

// redirected returns the call that a request carries on, nil for a new one.
func redirected(req *http.Request) *flight {
	if req.Response == nil {
		return nil
	}
	a, ok := req.Response.Body.(*attempt)
	if !ok || !a.flight.hop.waiting.CompareAndSwap(true, false) {
		return nil
	}
	return a.flight
}

// isRedirect reports whether http.Client may follow the response (RFC 9110,
// section 15.4).
func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	default:
		return false
	}
}
