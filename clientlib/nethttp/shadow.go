package nethttp

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// compareBody compares, in mode Shadow, a call whose body ended with the total, where
// that covers the body.
func (a *attempt) compareBody() {
	if p := a.Rules(); p.Scope != document.ScopeHeaders && !(a.stream && p.Scope == "") {
		a.shadow.Total(&a.Scope)
	}
}

// beginRead and endRead bracket a read of the body for the idle gap.
func (a *attempt) beginRead() time.Time {
	a.BeginRead()
	return a.shadow.BeginRead(&a.Scope)
}

func (a *attempt) endRead(began time.Time) {
	a.EndRead()
	a.shadow.EndRead(&a.Scope, began)
}
