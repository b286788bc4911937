// Package fasthttpserver makes the deadline that a request to a fasthttp server
// brought the ambient budget of the calls that serving it makes, as
// [deadline.Middleware] does for net/http.
package fasthttpserver

import (
	"bytes"
	"context"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/valyala/fasthttp"
)

type contextKey struct{}

// Middleware makes the deadline that a request brought the budget of its handler,
// which has it by [Context]. Trust is a choice, see [deadline.Middleware]: unless an
// option says otherwise, only peers with an address that the internet does not
// route can set a budget. A trust function finds no http.Request here.
//
// What cannot be read is ignored and told to the observers. With
// deadline.RefuseSpent a request with nothing left is answered with 504.
func Middleware(next fasthttp.RequestHandler, opts ...deadline.Option) fasthttp.RequestHandler {
	r := deadline.NewReader(opts...)
	return func(handler *fasthttp.RequestCtx) {
		own := Context(handler)
		ctx, done, refused := r.Begin(&deadline.Incoming{
			Context:  own,
			Addr:     deadline.ParseAddr(handler.RemoteAddr().String()),
			Protocol: "fasthttp",
			Values:   func(name string) []string { return values(&handler.Request.Header, name) },
		})
		defer done()
		if refused {
			handler.Error("the deadline of the request has passed", fasthttp.StatusGatewayTimeout)
			return
		}
		if ctx != own {
			handler.SetUserValue(contextKey{}, ctx)
		}
		next(handler)
	}
}

// values returns the values of a header field, however it is spelled: a server can
// be told to leave names as they are.
func values(h *fasthttp.RequestHeader, name string) []string {
	var found []string
	for key, value := range h.All() {
		if bytes.EqualFold(key, []byte(name)) {
			found = append(found, string(value))
		}
	}
	return found
}

// Context returns the context to make calls with while a request is served. It has
// the budget that [Middleware] found, and the user values of the request. It
// does not end when the server shuts down, so that what is being served can be
// finished. It is valid until the handler returns, as all that belongs to a
// RequestCtx; deadline.Detach does not change that.
func Context(handler *fasthttp.RequestCtx) context.Context {
	if ctx, ok := handler.UserValue(contextKey{}).(context.Context); ok {
		return ctx
	}
	return context.WithoutCancel(handler)
}
