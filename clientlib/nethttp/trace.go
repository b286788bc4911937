package nethttp

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// cloneHeader returns a copy that can be added to: the values are shared, since
// they are replaced and never changed.
func cloneHeader(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return maps.Clone(h)
}

// hasHeader reports whether a field is there in any spelling: a map that was
// written by hand need not be canonical.
func hasHeader(h http.Header, name string) bool {
	for key := range h {
		if len(key) == len(name) && strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// headerCarrier lets a trace write into the headers of one attempt.
type headerCarrier http.Header

func (c headerCarrier) Get(key string) string { return http.Header(c).Get(key) }
func (c headerCarrier) Set(key, value string) { http.Header(c).Set(key, value) }

func (c headerCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// trace begins the trace of the call.
func (f *flight) trace(req *http.Request, tracer engine.Tracer, policy *engine.Policy) {
	f.Trace(req.Context(), tracer, policy, engine.CallInfo{Adapter: adapterName, Method: req.Method, URL: req.URL})
}

// traceBody makes the trace end with the limit that cuts the body, also when
// the caller forgot the body and reads it no more.
func (a *attempt) traceBody() { a.unwatch = context.AfterFunc(&a.Scope, a.cut) }

// cut runs when the context of a traced body ended by something else than the
// body's end.
func (a *attempt) cut() {
	if now, limit := a.Look(); limit != engine.LimitNone || a.Context.Err() != nil {
		outcome := a.failed(nil).outcome
		a.endOnce(&outcome, now)
	}
}
