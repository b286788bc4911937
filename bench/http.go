package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
)

// stub answers without a network and does not look at the context.
type stub struct{}

type stubBody struct{ strings.Reader }

func (*stubBody) Close() error { return nil }

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	body := new(stubBody)
	body.Reset("ok")
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: 2, Request: req,
	}, nil
}

// watchful is a stub that waits for its context as a real transport does: it
// derives one from it, and ends that with the body.
type watchful struct{}

type watchfulBody struct {
	strings.Reader
	cancel context.CancelCauseFunc
}

func (b *watchfulBody) Close() error { b.cancel(nil); return nil }

func (watchful) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	body := &watchfulBody{cancel: cancel}
	body.Reset("ok")
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	default:
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: 2, Request: req,
	}, nil
}

// sequentially makes one call after the other.
func sequentially(m maker) func(int) error {
	call, buffer := m(), make([]byte, 512)
	return func(n int) error {
		for range n {
			if err := call(buffer); err != nil {
				return err
			}
		}
		return nil
	}
}

const manyCallers = 64

// together makes the calls by 64 callers at a time.
func together(m maker) func(int) error {
	calls := make([]caller, manyCallers)
	for i := range calls {
		calls[i] = m()
	}
	return func(n int) error {
		var (
			all   sync.WaitGroup
			left  atomic.Int64
			fault atomic.Pointer[error]
		)
		left.Store(int64(n))
		for _, call := range calls {
			all.Go(func() {
				buffer := make([]byte, 512)
				for left.Add(-1) >= 0 {
					if err := call(buffer); err != nil {
						fault.Store(&err)
						return
					}
				}
			})
		}
		all.Wait()
		if err := fault.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// loopback starts an origin and returns a transport to it and its host.
func loopback(http2 bool) (base *http.Transport, host string, done func()) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	server.Config.Protocols = protocols
	server.Start()
	base = &http.Transport{Protocols: protocols, MaxIdleConns: 4 * manyCallers, MaxIdleConnsPerHost: 4 * manyCallers}
	return base, server.Listener.Addr().String(), func() {
		base.CloseIdleConnections()
		server.Close()
	}
}

func stubGroup(name, title string, base http.RoundTripper, run func(maker) func(int) error) *group {
	return &group{
		name: name, title: title, base: caseBare, plain: casePlain,
		open: func() ([]*testCase, func(), error) {
			return httpCases(base, "http://orders/", "orders", "http://elsewhere/", run)
		},
	}
}

func loopbackGroup(name, title string, http2 bool, run func(maker) func(int) error) *group {
	return &group{
		name: name, title: title, base: caseBare, plain: casePlain, network: true,
		open: func() ([]*testCase, func(), error) {
			base, host, stop := loopback(http2)
			url := "http://" + host + "/"
			cases, done, err := httpCases(base, url, host, url, run)
			return cases, func() { done(); stop() }, err
		},
	}
}

func groups() []*group {
	return []*group{
		stubGroup("stub", "GET on a stub transport, one caller", stub{}, sequentially),
		stubGroup("stub-64", "the same, 64 callers", stub{}, together),
		stubGroup("watchful", "a stub that waits for its context as a transport does, one caller", watchful{}, sequentially),
		coldGroup("cold", "GET on a stub transport, each call with cold caches (time and CPU are the same here)", stub{}),
		coldGroup("cold-watchful", "the same, on a stub that waits for its context", watchful{}),
		alternating(loopbackGroup("loopback", "GET over HTTP/1.1 on the loopback interface, one caller", false, sequentially), 1),
		alternating(loopbackGroup("loopback-64", "the same, 64 callers", false, together), manyCallers),
		alternating(loopbackGroup("loopback-h2", "GET over HTTP/2 (without TLS) on the loopback interface, one caller", true, sequentially), 1),
		alternating(loopbackGroup("loopback-h2-64", "the same, 64 callers", true, together), manyCallers),
		alternating(grpcGroup("grpc", "gRPC unary on the loopback interface, one caller", sequentially), 1),
		alternating(grpcGroup("grpc-64", "the same, 64 callers", together), manyCallers),
		lookupGroup("lookup", "finding the policy of a call, hosts with a port", "u%d.shop:8080", "u%d.shop"),
		lookupGroup("lookup-wildcard", "the same, wildcards two labels above the host", "*.u%d.shop", "a.b.u%d.shop"),
	}
}
