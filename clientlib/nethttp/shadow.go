package nethttp

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// In mode Shadow nothing is armed; when a phase is over, what it took is
// compared with what it would have been allowed.

func (a *attempt) compareHeaders() {
	p, now := a.Rules(), a.flight.Now()
	if p.Attempt > 0 && now.Sub(a.flight.Began()) > p.Attempt {
		a.flight.WouldCut(engine.LimitAttempt.Label())
	}
	if p.Total > 0 && now.Sub(a.flight.Start()) > p.Total {
		a.totalPassed = true
		a.flight.WouldCut(engine.LimitTotal.Label())
	}
}

func (a *attempt) compareBody() {
	p := a.Rules()
	if p.Total > 0 && !a.totalPassed && p.Scope != document.ScopeHeaders && !(a.stream && p.Scope == "") &&
		a.flight.Now().Sub(a.flight.Start()) > p.Total {
		a.flight.WouldCut(engine.LimitTotal.Label())
	}
}

// beginRead and endRead bracket a read of the body for the idle gap.
func (a *attempt) beginRead() time.Time {
	a.BeginRead()
	if p := a.Rules(); p.Shadow && p.BodyIdle > 0 {
		return a.flight.Now()
	}
	return time.Time{}
}

func (a *attempt) endRead(began time.Time) {
	a.EndRead()
	if began.IsZero() || a.idlePassed {
		return
	}
	if a.flight.Now().Sub(began) > a.Rules().BodyIdle {
		a.idlePassed = true
		a.flight.WouldCut(engine.LimitBodyIdle.Label())
	}
}
