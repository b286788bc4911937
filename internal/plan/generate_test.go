package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// generator makes small policies from small pools, so that they meet each other
// often.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, 7))}
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[E any](g generator, pool ...E) E { return pool[g.IntN(len(pool))] }

func some[E any](g generator, percent int, pool ...E) []E {
	list := []E{}
	for _, e := range pool {
		if g.chance(percent) {
			list = append(list, e)
		}
	}
	return list
}

var (
	hostPool = []string{
		"a.x.example", "a.x.example:80", "a.x.example:443", "b.x.example", "A.X.example.",
		"*.x.example", "*.x.example:443", "*.example", "*.example:80", "*.example:443", "c.example",
		"10.0.0.1", "[::1]:443", "s.other",
	}
	requestHosts = []string{"a.x.example", "b.x.example", "q.w.x.example", "c.example", "x.example", "10.0.0.1", "::1", "s", "s.shop", "s.shop.svc.cluster.local", "s.other", "nowhere.test"}
	pathPool     = []string{"", "/", "/a", "/a/", "/a/b", "/a/b/c"}
	clientPool   = []string{"web", "cart"}
)

func (g generator) duration() *v1alpha1.Duration {
	if g.chance(50) {
		return nil
	}
	// Non-decreasing from inner to outer limits is not guaranteed: invalid
	// policies are part of the game.
	d := v1alpha1.Duration(pick(g, "0s", "100ms", "400ms", "1s", "1s500ms", "10s"))
	return &d
}

func number[N int32 | int64](g generator, from, to N) *N {
	if g.chance(60) {
		return nil
	}
	n := from + N(g.Int64N(int64(to-from+1)))
	return &n
}

func (g generator) rules() v1alpha1.Rules {
	var r v1alpha1.Rules
	if g.chance(50) {
		r.Timeouts = &v1alpha1.Timeouts{
			Total: g.duration(), BodyIdle: g.duration(),
			Scope: pick(g, "", "", v1alpha1.ScopeBody, v1alpha1.ScopeHeaders),
		}
		if g.chance(30) {
			r.Timeouts.Attempt = g.duration()
		}
	}
	if g.chance(40) {
		r.Retry = &v1alpha1.Retry{MaxAttempts: number[int32](g, 1, 10), MaxReplayBytes: number[int64](g, 0, 9)}
		if g.chance(30) {
			r.Retry.RetryableKinds = some(g, 30, v1alpha1.FailureKind("ReadTimeout"), "WriteTimeout", "Disconnected")
		}
		if g.chance(30) {
			r.Retry.RetryableStatusCodes = some(g, 50, v1alpha1.StatusCode(503), 429)
		}
		if g.chance(30) {
			r.Retry.Backoff = &v1alpha1.Backoff{Initial: g.duration(), Jitter: pick(g, "", v1alpha1.JitterNone)}
		}
		if g.chance(30) {
			r.Retry.Budget = &v1alpha1.Budget{Percent: number[int32](g, 0, 100)}
		}
		if g.chance(20) {
			r.Retry.RetryAfter = &v1alpha1.RetryAfter{Mode: pick(g, "", v1alpha1.RetryAfterIgnore), Max: g.duration()}
		}
	}
	if g.chance(20) {
		header := pick(g, "", "X-Deadline-Ms")
		r.Deadline = &v1alpha1.Deadline{Header: &header, Reserve: g.duration(), Inbound: pick(g, "", v1alpha1.InboundIgnore)}
	}
	if g.chance(20) {
		r.CircuitBreaker = &v1alpha1.CircuitBreaker{Failures: number[int32](g, 1, 9)}
	}
	return r
}

func (g generator) match() v1alpha1.Match {
	if g.chance(20) {
		return v1alpha1.Match{GRPC: &v1alpha1.GRPCMatch{Service: pick(g, "", "p.S", "p.T"), Method: pick(g, "", "M", "N")}}
	}
	m := v1alpha1.Match{Path: pick(g, pathPool...)}
	if g.chance(60) {
		for _, method := range some(g, 50, "GET", "POST", "PUT") {
			m.Methods = append(m.Methods, v1alpha1.Token(method))
		}
	}
	if m.Path != "" {
		m.PathMatch = pick(g, "", v1alpha1.PathExact, v1alpha1.PathPrefix)
	}
	return m
}

func (g generator) upstream(name string) v1alpha1.Upstream {
	u := v1alpha1.Upstream{Name: v1alpha1.Label(name), Rules: g.rules()}
	if g.chance(30) {
		u.Service = &v1alpha1.ServiceReference{Name: "s", Namespace: pick(g, "", v1alpha1.Label("other")), Port: number[int32](g, 80, 81)}
	}
	for _, h := range some(g, 12, hostPool...) {
		u.Hosts = append(u.Hosts, v1alpha1.HostPattern(h))
	}
	if u.Service == nil && len(u.Hosts) == 0 {
		u.Hosts = []v1alpha1.HostPattern{v1alpha1.HostPattern(pick(g, hostPool...))}
	}
	for i := range g.IntN(4) {
		u.Routes = append(u.Routes, v1alpha1.Route{Name: v1alpha1.Label(fmt.Sprintf("r%d", i)), Match: g.match(), Rules: g.rules()})
	}
	return u
}

func (g generator) policy(t testing.TB, name string, age time.Duration) v1alpha1.TimeoutPolicy {
	t.Helper()
	p := newPolicy(t, name, age, "{}")
	p.Generation = 1 + g.Int64N(9)
	for _, c := range some(g, 30, clientPool...) {
		p.Spec.Clients = append(p.Spec.Clients, v1alpha1.ClientName(c))
	}
	p.Spec.Mode = pick(g, "", "", "", v1alpha1.ModeEnforce, v1alpha1.ModeShadow, v1alpha1.ModeDisabled)
	p.Spec.OnUnsupported = pick(g, "", "", v1alpha1.UnsupportedReject)
	if g.chance(40) {
		rules := g.rules()
		p.Spec.Defaults = &rules
	}
	for i := range 1 + g.IntN(3) {
		p.Spec.Upstreams = append(p.Spec.Upstreams, g.upstream(fmt.Sprintf("u%d", i)))
	}
	return p
}

func (g generator) policies(t testing.TB) []v1alpha1.TimeoutPolicy {
	t.Helper()
	var policies []v1alpha1.TimeoutPolicy
	for i := range 1 + g.IntN(5) {
		// Some have the same age, so that the name decides.
		policies = append(policies, g.policy(t, fmt.Sprintf("p%d", i), time.Duration(1+g.IntN(3))*time.Hour))
	}
	return policies
}

func (g generator) request() request {
	r := request{
		client: pick(g, "", "web", "cart", "unnamed"),
		host:   pick(g, requestHosts...),
		port:   pick(g, uint16(80), 81, 443),
		call:   document.Call{Method: pick(g, "", "GET", "POST", "PUT"), Path: pick(g, "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/x")},
	}
	if g.chance(20) {
		r.call = document.Call{Method: "POST", GRPC: true, Path: pick(g, "/p.S/M", "/p.S/N", "/p.T/M", "/q.U/O")}
	}
	return r
}
