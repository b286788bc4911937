package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds that the API schema states too.
const (
	maxUpstreamHosts = 1024
	maxRoutes        = 256
	maxNameLength    = 253
	// MaxAttempts is the largest retry.maxAttempts.
	MaxAttempts = 10
	// MaxReplayBytes is the largest retry.maxReplayBytes.
	MaxReplayBytes = 16 << 20
)

// Validate checks the document as a whole and returns the first fault as a
// *[FieldError]. Values that a merge of valid policies can give are valid: an
// attempt longer than its total, for instance, is clamped by it.
func (d *Document) Validate() error {
	if d.Schema != Schema {
		return fieldErrorf("schema", "is %d, this version reads %d only", d.Schema, Schema).as(ErrSchema)
	}
	if d.Tombstone && len(d.Upstreams) > 0 {
		return fieldErrorf("tombstone", "is true, so upstreams must be empty")
	}
	for _, f := range []struct{ path, value string }{{"namespace", d.Namespace}, {"client", d.Client}} {
		if len(f.value) > maxNameLength {
			return fieldErrorf(f.path, "is longer than %d characters", maxNameLength)
		}
	}
	for i, p := range d.Policies {
		if p.Name == "" || len(p.Name) > maxNameLength {
			return fieldErrorf(fmt.Sprintf("policies[%d].name", i), "must have 1 to %d characters", maxNameLength)
		}
	}
	owners := map[HostPattern]int{}
	for i := range d.Upstreams {
		if err := d.Upstreams[i].validate(fmt.Sprintf("upstreams[%d]", i), i, owners); err != nil {
			return err
		}
	}
	return nil
}

func (u *Upstream) validate(path string, index int, owners map[HostPattern]int) error {
	if err := checkLabel(path+".name", u.Name); err != nil {
		return err
	}
	if len(u.Hosts) == 0 || len(u.Hosts) > maxUpstreamHosts {
		return fieldErrorf(path+".hosts", "must have 1 to %d entries", maxUpstreamHosts)
	}
	for i, h := range u.Hosts {
		p, err := ParseHostPattern(h)
		if err != nil {
			return fieldErrorf(fmt.Sprintf("%s.hosts[%d]", path, i), "%v", err)
		}
		if other, taken := owners[p]; taken {
			return fieldErrorf(fmt.Sprintf("%s.hosts[%d]", path, i), "%q belongs to upstreams[%d] already", p, other)
		}
		owners[p] = index
	}
	if err := oneOf(path+".mode", u.Mode, ModeEnforce, ModeShadow); err != nil {
		return err
	}
	if err := oneOf(path+".onUnsupported", u.OnUnsupported, UnsupportedReport, UnsupportedReject); err != nil {
		return err
	}
	if err := u.Rules.validate(path); err != nil {
		return err
	}
	if len(u.Routes) > maxRoutes {
		return fieldErrorf(path+".routes", "has %d entries, more than %d", len(u.Routes), maxRoutes)
	}
	matches := map[string]int{}
	for i := range u.Routes {
		at := fmt.Sprintf("%s.routes[%d]", path, i)
		if err := u.Routes[i].validate(at); err != nil {
			return err
		}
		key := u.Routes[i].Match.Key()
		if other, taken := matches[key]; taken {
			return fieldErrorf(at+".match", "selects the same calls as routes[%d]", other)
		}
		matches[key] = i
	}
	return nil
}

func (r *Route) validate(path string) error {
	if err := checkLabel(path+".name", r.Name); err != nil {
		return err
	}
	m := &r.Match
	if m.GRPC != nil && (len(m.Methods) > 0 || m.Path != "") {
		return fieldErrorf(path+".match.grpc", "excludes methods and path")
	}
	if g := m.GRPC; g != nil {
		for _, f := range []struct{ name, value string }{{"service", g.Service}, {"method", g.Method}} {
			if strings.Contains(f.value, "/") || len(f.value) > maxNameLength {
				return fieldErrorf(path+".match.grpc."+f.name, "%s is not a name of at most %d characters without \"/\"", strconv.Quote(shorten(f.value)), maxNameLength)
			}
		}
	}
	if m.Path != "" && m.Path[0] != '/' {
		return fieldErrorf(path+".match.path", "%q must begin with \"/\"", shorten(m.Path))
	}
	if len(m.Path) > 1024 {
		return fieldErrorf(path+".match.path", "is longer than 1024 characters")
	}
	if err := oneOf(path+".match.pathMatch", m.PathMatch, PathPrefix, PathExact); err != nil {
		return err
	}
	for i, method := range m.Methods {
		if err := checkToken(fmt.Sprintf("%s.match.methods[%d]", path, i), method); err != nil {
			return err
		}
	}
	return r.Rules.validate(path)
}

func (r *Rules) validate(path string) error {
	if t := r.Timeouts; t != nil {
		if err := oneOf(path+".timeouts.scope", t.Scope, ScopeBody, ScopeHeaders); err != nil {
			return err
		}
		for _, f := range []struct {
			name string
			d    *Duration
		}{{"total", t.Total}, {"attempt", t.Attempt}, {"connect", t.Connect}, {"responseHeader", t.ResponseHeader}, {"bodyIdle", t.BodyIdle}} {
			if err := checkDuration(path+".timeouts."+f.name, f.d); err != nil {
				return err
			}
		}
	}
	if r.Retry != nil {
		if err := r.Retry.validate(path + ".retry"); err != nil {
			return err
		}
	}
	if d := r.Deadline; d != nil {
		if d.Header != "" {
			if err := checkDeadlineHeader(path+".deadline.header", d.Header); err != nil {
				return err
			}
		}
		if err := oneOf(path+".deadline.inbound", d.Inbound, InboundShorten, InboundIgnore); err != nil {
			return err
		}
		if err := checkDuration(path+".deadline.reserve", d.Reserve); err != nil {
			return err
		}
	}
	if r.CircuitBreaker != nil {
		return r.CircuitBreaker.validate(path + ".circuitBreaker")
	}
	return nil
}

func (r *Retry) validate(path string) error {
	if err := checkRange(path+".maxAttempts", r.MaxAttempts, 1, MaxAttempts); err != nil {
		return err
	}
	if n := r.MaxReplayBytes; n != nil && (*n < 0 || *n > MaxReplayBytes) {
		return fieldErrorf(path+".maxReplayBytes", "is %d, it must be from 0 to %d", *n, MaxReplayBytes)
	}
	for i, code := range r.RetryableStatusCodes {
		if code < 400 || code > 599 {
			return fieldErrorf(fmt.Sprintf("%s.retryableStatusCodes[%d]", path, i), "is %d, it must be from 400 to 599", code)
		}
	}
	for i, method := range r.Methods {
		if err := checkToken(fmt.Sprintf("%s.methods[%d]", path, i), method); err != nil {
			return err
		}
	}
	for i, header := range r.IdempotencyHeaders {
		if err := checkToken(fmt.Sprintf("%s.idempotencyHeaders[%d]", path, i), header); err != nil {
			return err
		}
	}
	if b := r.Backoff; b != nil {
		if err := checkDuration(path+".backoff.initial", b.Initial); err != nil {
			return err
		}
		if err := checkDuration(path+".backoff.max", b.Max); err != nil {
			return err
		}
		if err := checkRange(path+".backoff.factor", b.Factor, 1, 10); err != nil {
			return err
		}
		if err := oneOf(path+".backoff.jitter", b.Jitter, JitterFull, JitterEqual, JitterNone); err != nil {
			return err
		}
	}
	if a := r.RetryAfter; a != nil {
		if err := oneOf(path+".retryAfter.mode", a.Mode, RetryAfterHonor, RetryAfterIgnore); err != nil {
			return err
		}
		if err := checkDuration(path+".retryAfter.max", a.Max); err != nil {
			return err
		}
	}
	if b := r.Budget; b != nil {
		if err := checkRange(path+".budget.percent", b.Percent, 0, 100); err != nil {
			return err
		}
		return checkRange(path+".budget.burst", b.Burst, 0, 100000)
	}
	return nil
}

func (c *CircuitBreaker) validate(path string) error {
	if err := checkRange(path+".failures", c.Failures, 1, 10000); err != nil {
		return err
	}
	if err := checkRange(path+".halfOpen", c.HalfOpen, 1, 100); err != nil {
		return err
	}
	if c.Recovery != nil && *c.Recovery == 0 {
		return fieldErrorf(path+".recovery", "is %q, it must be longer than 0s", c.Recovery)
	}
	return checkDuration(path+".recovery", c.Recovery)
}

func checkRange(path string, n *int, from, to int) error {
	if n != nil && (*n < from || *n > to) {
		return fieldErrorf(path, "is %d, it must be from %d to %d", *n, from, to)
	}
	return nil
}

// checkDuration refuses what only a program can make; a parsed duration passes.
func checkDuration(path string, d *Duration) error {
	switch {
	case d == nil:
		return nil
	case *d < 0 || *d > MaxDuration:
		return fieldErrorf(path, "is %s, it must be from 0s to %s", d.Std(), MaxDuration)
	case *d%Duration(time.Millisecond) != 0:
		// The form cannot spell it: below 1ms it would read "0s", no limit.
		return fieldErrorf(path, "is %s, it must be whole milliseconds", d.Std())
	default:
		return nil
	}
}

// oneOf accepts the listed values and "", which is absent.
func oneOf[E ~string](path string, value E, allowed ...E) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, 0, len(allowed))
	for _, a := range allowed {
		names = append(names, string(a))
	}
	return fieldErrorf(path, "is %q, it must be %s", shorten(string(value)), strings.Join(names, " or "))
}

// checkLabel wants a DNS label (RFC 1123).
func checkLabel(path, s string) error {
	ok := len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-'
	for _, c := range []byte(s) {
		ok = ok && c != '_' && isNameByte(c)
	}
	if !ok {
		return fieldErrorf(path, "%s is not a name of 1 to 63 lower case letters, digits and '-'", strconv.Quote(shorten(s)))
	}
	return nil
}

// checkToken wants a token (RFC 9110, section 5.6.2): a method or a field name.
// taken are headers that a call, its library or its connection gives a meaning. The
// API refuses the same.
var taken = []string{
	"accept", "accept-encoding", "authorization", "baggage", "connection", "content-encoding", "content-length",
	"content-type", "cookie", "date", "expect", "forwarded", "host", "idempotency-key",
	"keep-alive", "proxy-authorization", "proxy-connection", "range", "referer", "retry-after", "te",
	"traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
}

// checkDeadlineHeader keeps a policy from overwriting what makes a request what it
// is.
func checkDeadlineHeader(path, name string) error {
	if err := checkToken(path, name); err != nil {
		return err
	}
	if slices.Contains(taken, strings.ToLower(name)) {
		return fieldErrorf(path, "%s has a meaning already: name a header of your own, such as X-Deadline-Ms", name)
	}
	return nil
}

func checkToken(path, s string) error {
	ok := len(s) >= 1 && len(s) <= 64
	for _, c := range []byte(s) {
		ok = ok && (c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0)
	}
	if !ok {
		return fieldErrorf(path, "%s is not an HTTP token of 1 to 64 characters", strconv.Quote(shorten(s)))
	}
	return nil
}
