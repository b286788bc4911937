package clientotel

import (
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	upstreamKey = attribute.Key("timeouts.upstream")
	routeKey    = attribute.Key("timeouts.route")
	outcomeKey  = attribute.Key("timeouts.outcome")
	sourceKey   = attribute.Key("timeouts.source")
	skippedKey  = attribute.Key("timeouts.retry_skipped")
	numberKey   = attribute.Key("timeouts.attempt")
	waitKey     = attribute.Key("timeouts.retry_wait_ms")
)

const redacted = "REDACTED"

// request returns what the conventions want to know of a request when its span
// starts, so that samplers see it.
func request(method string, u *url.URL) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	known := knownMethod(method)
	attrs = append(attrs, semconv.HTTPRequestMethodKey.String(known))
	if known == otherMethod {
		attrs = append(attrs, semconv.HTTPRequestMethodOriginal(method))
	}
	if u == nil {
		return attrs
	}
	attrs = append(attrs, semconv.ServerAddress(u.Hostname()), semconv.URLFull(fullURL(u)))
	if port := portOf(u); port > 0 {
		attrs = append(attrs, semconv.ServerPort(port))
	}
	return attrs
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

// spanName is the method and, where there is one, a name of few values.
func spanName(method, route string) string {
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
