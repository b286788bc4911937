package nethttp

import (
	"net/http"
	"sync"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// A call whose response was a redirect waits for http.Client to follow it.
// http.Client closes the response right before it makes the next request, so
// these times are only ever spent by callers that do not follow.
const (
	// redirectGrace is how long the call waits once the response was closed.
	redirectGrace = time.Second
	// redirectPatience is how long it waits while the response is open, since
	// callers forget to close one without a body.
	redirectPatience = 30 * time.Second
)

// hop is the seam between two requests of a redirected call. http.Client hands
// the response of a hop to the request of the next one (Request.Response);
// that response's body is our attempt, and it leads back to the call.
type hop struct {
	mu sync.Mutex
	// open is the ticket of the redirect that the call waits on, 0 for none.
	// Tickets are never used twice, so neither an old response nor the timer of
	// an old hop can end or continue a later one.
	open, last uint32
	followed   uint32   // the last ticket that was
	body       *bodyEnd // of the redirect that the call waits on; nil while it is open
	timer      clock.Timer
	outcome    engine.Outcome
	decision   engine.Decision
}

// bodyEnd is how a body ended, and when.
type bodyEnd struct {
	outcome engine.Outcome
	at      time.Duration // since the start of the call
}

// await puts off the end of a call whose response is a redirect.
func (h *hop) await(f *flight, o engine.Outcome, d engine.Decision) (ticket uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.open, h.outcome, h.decision, h.body = h.last, o, d, nil
	ticket = h.last
	h.timer = f.transport.engine.Clock().AfterFunc(redirectPatience, func() {
		if !h.giveUp(ticket) {
			return
		}
		f.Settle(h.outcome, engine.Attribution{}, h.decision)
		if h.body != nil {
			f.BodyDone(h.body.outcome, h.body.at)
		}
	})
	return ticket
}

// closed leaves little time to go on with the redirect of a ticket, whose body ended.
// It reports whether that was the body of the final response, as far as is known by
// now: a call that still waits will tell.
func (h *hop) closed(ticket uint32, end bodyEnd) (final bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != ticket {
		return ticket > h.followed
	}
	h.body = &end
	h.timer.Reset(redirectGrace)
	return false
}

// giveUp ends the wait on a redirect that nobody follows; false when it is over
// already.
func (h *hop) giveUp(ticket uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.take(ticket)
}

// follow is giveUp for who goes on with the redirect, whose body then is nobody's
// business.
func (h *hop) follow(ticket uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.take(ticket) {
		return false
	}
	h.followed = ticket
	return true
}

// take is for who has the lock.
func (h *hop) take(ticket uint32) bool {
	if h.open != ticket {
		return false
	}
	h.open = 0
	h.timer.Stop()
	return true
}

// redirected returns the call that a request carries on which was made for a
// response; nil for a new one.
func redirected(req *http.Request) *flight {
	a, ok := req.Response.Body.(*attempt)
	if !ok || a.ticket == 0 || !a.flight.hop.follow(a.ticket) {
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
