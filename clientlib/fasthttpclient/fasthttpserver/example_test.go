package fasthttpserver_test

import (
	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient"
	"github.com/timeout-operator/timeout-operator/clientlib/fasthttpclient/fasthttpserver"
	"github.com/valyala/fasthttp"
)

func ExampleMiddleware() {
	var client *fasthttpclient.Client // of fasthttpclient.New
	handle := func(handler *fasthttp.RequestCtx) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI("http://orders/")
		if err := client.Do(fasthttpserver.Context(handler), req, resp); err != nil {
			handler.Error("orders cannot be had", fasthttp.StatusBadGateway)
			return
		}
		handler.SetBody(resp.Body())
	}
	_ = &fasthttp.Server{Handler: fasthttpserver.Middleware(handle, deadline.RefuseSpent())}
}
