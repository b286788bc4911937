package deadline

import "net/http"

// Middleware makes the deadline that a request brought the ambient budget of its
// handler. Trust is a choice: unless [TrustPrefixes], [TrustFunc] or
// [TrustEveryone] says otherwise, only peers with an address that the internet
// does not route can set a budget.
//
// What cannot be read is ignored and told to the observers; it is never an error
// to the caller. A request can shorten its own budget and nothing else: a budget
// that is there already, from a middleware outside of this one, holds if it is
// tighter.
func Middleware(next http.Handler, opts ...Option) http.Handler {
	r := NewReader(opts...)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, done, refused, changed := r.begin(&Incoming{
			Context:  req.Context(),
			Addr:     ParseAddr(req.RemoteAddr),
			Request:  req,
			Protocol: "http",
			Values:   func(name string) []string { return req.Header[name] },
		})
		defer done()
		if refused {
			http.Error(w, "the deadline of the request has passed", http.StatusGatewayTimeout)
			return
		}
		if !changed {
			next.ServeHTTP(w, req)
			return
		}
		budgeted := req.WithContext(ctx)
		defer handBack(req, budgeted)
		next.ServeHTTP(w, budgeted)
	})
}

// handBack gives the request of the server what handlers noted in the copy with
// the budget: the server removes the files of a multipart form when it is done
// with its request, and who stands outside of the middleware reads the pattern
// that a mux found, or the form.
func handBack(req, budgeted *http.Request) {
	req.Pattern = budgeted.Pattern
	req.Form, req.PostForm, req.MultipartForm = budgeted.Form, budgeted.PostForm, budgeted.MultipartForm
}
