package grpcclient

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// outgoing returns the context that the RPC is made with: that of the attempt,
// with the metadata that the policy or a trace adds. The caller's own metadata
// is copied, never changed.
func (a *attempt) outgoing() context.Context {
	left, stamps := a.stamp()
	traced := a.flight.Traced()
	var ctx context.Context = a
	if !stamps && !traced {
		return ctx
	}
	md, ok := metadata.FromOutgoingContext(a.parent)
	if !ok {
		md = metadata.MD{}
	}
	if traced {
		info := engine.AttemptInfo{Method: a.flight.method, URL: a.flight.to.url}
		ctx = a.flight.TraceAttempt(ctx, info, carrier(md))
	}
	if stamps {
		md.Set(a.Rules().DeadlineHeader, strconv.FormatInt(left, 10))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// stamp returns what the policy's deadline header says. The end of a total that is
// over at the headers is none that a server could keep.
func (a *attempt) stamp() (milliseconds int64, ok bool) {
	p := a.Rules()
	switch {
	case p.DeadlineHeader == "" || p.Shadow || a.told.IsZero():
		return 0, false
	case a.endless:
		return max(0, a.told.Sub(a.began)).Milliseconds(), true
	default:
		return a.flight.Stamp(a.began)
	}
}

// carrier lets a trace write into the metadata of one attempt.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// headersOf returns the metadata that a call is made with in the spelling of HTTP
// headers, in which policies name them.
func headersOf(ctx context.Context) map[string][]string {
	md, _ := metadata.FromOutgoingContext(ctx)
	headers := make(map[string][]string, len(md))
	for k, v := range md {
		headers[http.CanonicalHeaderKey(strings.ToLower(k))] = v
	}
	return headers
}
