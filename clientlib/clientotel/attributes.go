package clientotel

import (
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

const (
	upstreamKey = attribute.Key("timeouts.upstream")
	routeKey    = attribute.Key("timeouts.route")
	outcomeKey  = attribute.Key("timeouts.outcome")
	sourceKey   = attribute.Key("timeouts.source")
	skippedKey  = attribute.Key("timeouts.retry_skipped")
	numberKey   = attribute.Key("timeouts.attempt")
	waitKey     = attribute.Key("timeouts.retry_wait_ms")
	resentKey   = attribute.Key("timeouts.resend_count")
)

const redacted = "REDACTED"

// grpcAdapter is the adapter whose calls are RPCs; all others speak HTTP.
const grpcAdapter = "grpc"

// request returns what the conventions want to know of a request when its span
// starts, so that samplers see it.
func request(adapter, method string, u *url.URL) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	if u != nil {
		attrs = append(attrs, semconv.ServerAddress(u.Hostname()))
		if port := portOf(u); port > 0 {
			attrs = append(attrs, semconv.ServerPort(port))
		}
	}
	if adapter == grpcAdapter {
		return append(attrs, semconv.RPCSystemNameGRPC, semconv.RPCMethod(strings.TrimPrefix(method, "/")))
	}
	known := knownMethod(method)
	attrs = append(attrs, semconv.HTTPRequestMethodKey.String(known))
	if known == otherMethod {
		attrs = append(attrs, semconv.HTTPRequestMethodOriginal(method))
	}
	if u != nil {
		attrs = append(attrs, semconv.URLFull(fullURL(u)))
	}
	return attrs
}

// response returns the status of a response and, where it is an error in the
// conventions, what they call it. To them every HTTP status from 400 on is an
// error of the client's span, also where the policy takes it for an answer.
func response(adapter string, status int) (attr attribute.KeyValue, errorType string) {
	switch {
	case adapter != grpcAdapter:
		if status >= 400 {
			errorType = strconv.Itoa(status)
		}
		return semconv.HTTPResponseStatusCode(status), errorType
	case status < 0 || status >= len(engine.GRPCCodes):
		errorType = strconv.Itoa(status)
		return semconv.RPCResponseStatusCode(errorType), errorType
	default:
		name := engine.GRPCCodes[status]
		if status > 0 {
			errorType = name
		}
		return semconv.RPCResponseStatusCode(name), errorType
	}
}

// resent says how many attempts came before. The conventions have an attribute for
// it in HTTP only.
func resent(adapter string, n int) attribute.KeyValue {
	if adapter == grpcAdapter {
		return resentKey.Int(n)
	}
	return semconv.HTTPRequestResendCount(n)
}

const otherMethod = "_OTHER"

// knownMethod bounds a method to RFC 9110 and RFC 5789; the empty one is GET, as
// in net/http.
func knownMethod(m string) string {
	switch m {
	case "":
		return "GET"
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return m
	default:
		return otherMethod
	}
}

// spanName is the RPC, or the HTTP method and, where there is one, a route of few
// values.
func spanName(adapter, method, route string) string {
	if adapter == grpcAdapter {
		return strings.TrimPrefix(method, "/")
	}
	m := knownMethod(method)
	if m == otherMethod {
		m = "HTTP"
	}
	if route == "" {
		return m
	}
	return m + " " + route
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	switch u.Scheme {
	case "http":
		return 80
	case "https":
		return 443
	default:
		return 0
	}
}

// fullURL writes an URL without what may be secret: user information and the
// values of the query.
func fullURL(u *url.URL) string {
	if u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return u.String()
	}
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	bare.RawQuery = redactQuery(u.RawQuery)
	if u.User != nil {
		bare.User = url.UserPassword(redacted, redacted)
	}
	return bare.String()
}

// redactQuery keeps the names of parameters. What has no "=" may be a value.
func redactQuery(query string) string {
	if query == "" {
		return ""
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, ok := strings.Cut(part, "=")
		switch {
		case ok:
			parts[i] = name + "=" + redacted
		case part != "":
			parts[i] = redacted
		}
	}
	return strings.Join(parts, "&")
}
