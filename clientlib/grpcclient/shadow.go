package grpcclient

import "github.com/timeout-operator/timeout-operator/clientlib/document"

// compareHeaders is called when a reply, the headers of a stream or an error came.
func (a *attempt) compareHeaders() {
	if a.Rules().Shadow {
		a.shadow.Headers(&a.Scope, a.began)
	}
}

// compareStream is called when a stream ended.
func (a *attempt) compareStream() {
	if p := a.Rules(); p.Shadow && p.Scope == document.ScopeBody {
		a.shadow.Total(&a.Scope)
	}
}
