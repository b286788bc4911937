package fasthttpclient

import (
	"context"
	"sync"

	"github.com/valyala/fasthttp"
)

// caller is what the request of a call carries down to where the connection is,
// among its user values: fasthttp has no other place for it.
type caller struct {
	ctx context.Context
	// follows says that redirects are followed within the call.
	follows bool
	// flight is the call under way, nil before its first request.
	flight *flight
	before any // what the request carried before
}

type callerKey struct{}

// SetContext says whose context the calls have that are made with req by
// [Client.Fasthttp]: its cancellation, deadline, ambient budget and call options.
// It holds until the request is reset. The methods of [Client] take a context of
// their own.
func SetContext(ctx context.Context, req *fasthttp.Request) {
	req.SetUserValue(callerKey{}, &caller{ctx: ctx})
}

// callers are used again: a call lets go of its own before it returns.
var callers sync.Pool

// attach lets req carry the context of a call. detach has to follow.
func attach(ctx context.Context, req *fasthttp.Request, follows bool) *caller {
	c, ok := callers.Get().(*caller)
	if !ok {
		c = new(caller)
	}
	c.ctx, c.follows, c.before = ctx, follows, req.UserValue(callerKey{})
	req.SetUserValue(callerKey{}, c)
	return c
}

// detach gives req back as it was.
func (c *caller) detach(req *fasthttp.Request) {
	if c.before == nil {
		req.RemoveUserValue(callerKey{})
	} else {
		req.SetUserValue(callerKey{}, c.before)
	}
	*c = caller{}
	callers.Put(c)
}

// nobody is the caller of a request that carries none.
var nobody = &caller{ctx: context.Background()}

func callerOf(req *fasthttp.Request) *caller {
	if c, ok := req.UserValue(callerKey{}).(*caller); ok {
		return c
	}
	return nobody
}

// underWay returns the call that a request goes on with: the hop after a redirect;
// nil for a new call.
func (c *caller) underWay() *flight {
	if f := c.flight; f != nil && f.redirect != nil {
		return f
	}
	return nil
}

// stayed ends the call whose last response was a redirect that was not followed.
func (c *caller) stayed() {
	if f := c.underWay(); f != nil {
		f.settleRedirect()
	}
}
