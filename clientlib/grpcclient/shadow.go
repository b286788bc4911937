package grpcclient

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// In mode Shadow nothing is armed; when a phase is over, what it took is
// compared with what it would have been allowed.

// compareHeaders is called when a reply, the headers of a stream or an error came.
func (a *attempt) compareHeaders() {
	p := a.Rules()
	if !p.Shadow {
		return
	}
	now := a.flight.Now()
	if p.Attempt > 0 && now.Sub(a.began) > p.Attempt {
		a.flight.WouldCut(engine.LimitAttempt.Label())
	}
	a.compareTotal(now)
}

// compareTotal counts a total that has passed, once.
func (a *attempt) compareTotal(now time.Time) {
	if p := a.Rules(); p.Total > 0 && !a.totalPassed && now.Sub(a.flight.Start()) > p.Total {
		a.totalPassed = true
		a.flight.WouldCut(engine.LimitTotal.Label())
	}
}

// compareStream is called when a stream ended.
func (a *attempt) compareStream() {
	if p := a.Rules(); p.Shadow && p.Scope == document.ScopeBody {
		a.compareTotal(a.flight.Now())
	}
}

// comparesIdle reports whether gaps between messages are compared.
func (a *attempt) comparesIdle() bool {
	p := a.Rules()
	return p.Shadow && p.BodyIdle > 0 && !a.idlePassed
}

// compareIdle is called after a message that began to be waited for at that time.
func (a *attempt) compareIdle(began time.Time) {
	if a.flight.Now().Sub(began) > a.Rules().BodyIdle {
		a.idlePassed = true
		a.flight.WouldCut(engine.LimitBodyIdle.Label())
	}
}
