package grpcclient

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// outgoing returns the context that the RPC is made with: that of the attempt,
// with the metadata that the policy or a trace adds. The caller's own metadata
// is copied, never changed.
func (a *attempt) outgoing() context.Context {
	name, traced := a.flight.DeadlineHeader(), a.flight.Traced()
	if name == "" && !traced {
		return a
	}
	md, ok := metadata.FromOutgoingContext(a.parent)
	if !ok {
		md = metadata.MD{}
	}
	var ctx context.Context = a
	if traced {
		info := engine.AttemptInfo{Method: a.flight.method, URL: a.flight.to.url}
		ctx = a.flight.TraceAttempt(ctx, info, carrier(md))
	}
	if name != "" {
		a.tell(md, name)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// tell writes the policy's deadline header. What the metadata had under that
// name, as proxies pass on what they were told, is replaced. A total that is over
// at the headers is no end that a server could keep: of such a stream it is told
// the caller's own. A name that metadata cannot have is left out: grpc-go would
// make no RPC with it.
func (a *attempt) tell(md metadata.MD, name string) {
	if !isMetadataKey(name) {
		if to := a.flight.to; !to.mute.Swap(true) {
			a.flight.in.warn("deadline.header " + clip(name) + " cannot be sent to " + to.String() + " on gRPC: take letters, digits, '-', '_' and '.'")
		}
		return
	}
	md.Delete(name)
	if a.told.IsZero() {
		return
	}
	if a.endless {
		md.Set(name, deadline.Named(name).Format(a.told.Sub(a.began)))
		return
	}
	if text, ok := a.flight.StampText(a.began); ok {
		md.Set(name, text)
	}
}

// isMetadataKey reports whether a name of an HTTP field, which may have other marks
// in it, can be one of gRPC's metadata.
func isMetadataKey(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	})
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
