package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Snapshot is a compiled document: immutable, safe for concurrent use. Looking
// a call up takes the same time whatever the number of upstreams.
type Snapshot struct {
	// Document it was built from; nil for the empty snapshot.
	Document  *document.Document
	upstreams []*upstream
	// exact holds names, wildcard the part after "*."; the targets of a name
	// are ordered: one port before any port.
	exact    map[string][]target
	wildcard map[string][]target
	// authorities remembers what was looked up.
	authorities authorities
}

type target struct {
	port     uint16
	upstream *upstream
}

// upstream is an entry of the document: the rules without a route, and the
// routes in the order in which they are tried.
type upstream struct {
	name   string
	hosts  []document.HostPattern
	base   *Policy
	routes []route
	state  *State
	called atomic.Bool // where there are routes
	// source is the entry of the newest document that the upstream stands for.
	// It belongs to whoever builds.
	source *document.Upstream
}

type route struct {
	match  document.Match
	policy *Policy
	taken  *atomic.Bool // by a call
}

// Lookup finds the policy of a call; nil when none names the host. The name
// may be in any letter case and end with a dot; port 0 means unknown. It does
// not allocate for a name in lower case.
func (s *Snapshot) Lookup(name string, port uint16, call document.Call) *Policy {
	h, ok := s.Host(name, port)
	if !ok {
		return nil
	}
	return h.Policy(call)
}

// Host finds who answers for a host, as Lookup does; false when no pattern names
// it.
func (s *Snapshot) Host(name string, port uint16) (Host, bool) {
	u := s.find(document.NormalizeHostname(name), port)
	if u == nil {
		return Host{}, false
	}
	h := Host{upstream: u}
	if len(u.routes) == 0 {
		h.only = u.base
	}
	return h, true
}

// Host is the upstream of a host. What a call has to say of itself is asked for
// only where it matters.
type Host struct {
	upstream *upstream
	only     *Policy // where there are no routes
}

// Only returns the policy of every call to the host; nil where Policy has to look at
// the call.
func (h Host) Only() *Policy { return h.only }

// Policy finds the policy of a call to the host.
func (h Host) Policy(call document.Call) *Policy {
	if h.only != nil {
		return h.only
	}
	u := h.upstream
	note(&u.called)
	for i := range u.routes {
		if r := &u.routes[i]; r.match.Matches(call) {
			note(r.taken)
			return r.policy
		}
	}
	return u.base
}

func (s *Snapshot) find(name string, port uint16) *upstream {
	if len(s.exact) > 0 {
		if u := pick(s.exact[name], port); u != nil {
			return u
		}
	}
	if len(s.wildcard) == 0 {
		return nil
	}
	for rest := name; ; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return nil
		}
		rest = rest[dot+1:]
		if len(name)-len(rest) == 1 {
			continue // a leading dot: no label stands before it
		}
		if u := pick(s.wildcard[rest], port); u != nil {
			return u
		}
	}
}

func pick(targets []target, port uint16) *upstream {
	for i := range targets {
		if targets[i].port == 0 || targets[i].port == port {
			return targets[i].upstream
		}
	}
	return nil
}

// Circuits calls yield with the state of each upstream that has a circuit
// breaker. A name that several entries of the document share comes up several
// times.
func (s *Snapshot) Circuits(yield func(upstream string, state CircuitState)) {
	for _, u := range s.upstreams {
		if u.hasBreaker() {
			yield(u.name, u.state.Circuit())
		}
	}
}

func (u *upstream) hasBreaker() bool {
	return u.base.hasBreaker || slices.ContainsFunc(u.routes, func(r route) bool { return r.policy.hasBreaker })
}

// build compiles a document. State is taken over from before for every upstream
// of the same name that shares a host pattern, so that a breaker stays open and
// a budget stays spent over a reload.
func build(doc *document.Document, before *Snapshot, observers []Observer) *Snapshot {
	s := &Snapshot{
		Document: doc,
		exact:    map[string][]target{},
		wildcard: map[string][]target{},
	}
	if doc == nil {
		return s
	}
	for i := range doc.Upstreams {
		d := &doc.Upstreams[i]
		u := before.unchanged(d)
		if u == nil {
			u = before.succeeded(compileUpstream(d))
			u.attach(observers)
		}
		u.source = d
		s.upstreams = append(s.upstreams, u)
		for _, p := range u.hosts {
			index := s.exact
			if p.Wildcard {
				index = s.wildcard
			}
			index[p.Name] = append(index[p.Name], target{port: p.Port, upstream: u})
		}
	}
	for _, index := range []map[string][]target{s.exact, s.wildcard} {
		for _, targets := range index {
			slices.SortFunc(targets, func(a, b target) int { return cmp.Compare(b.port, a.port) })
		}
	}
	return s
}

// succeeded gives a new upstream what its predecessor has to hand on.
func (s *Snapshot) succeeded(u *upstream) *upstream {
	predecessor := s.like(u)
	u.state = &State{}
	if predecessor != nil {
		u.state = predecessor.state
	}
	u.inherit(predecessor)
	return u
}

func compileUpstream(d *document.Upstream) *upstream {
	u := &upstream{name: strings.Clone(d.Name)}
	for _, h := range d.Hosts {
		// A document that validated has patterns that parse.
		if p, err := document.ParseHostPattern(h); err == nil {
			p.Name = strings.Clone(p.Name)
			u.hosts = append(u.hosts, p)
		}
	}
	compileInto := func(rules *document.Rules, routeName string) *Policy {
		p := compile(rules)
		p.Upstream, p.Route = u.name, strings.Clone(routeName)
		p.Shadow = d.Mode == document.ModeShadow
		return &p
	}
	u.base = compileInto(&d.Rules, "")
	for i := range d.Routes {
		r := &d.Routes[i]
		u.routes = append(u.routes, route{match: ownMatch(r.Match), policy: compileInto(&r.Rules, r.Name)})
	}
	slices.SortStableFunc(u.routes, func(a, b route) int { return a.match.Compare(&b.match) })
	return u
}

func (u *upstream) attach(observers []Observer) {
	policies := []*Policy{u.base}
	for i := range u.routes {
		policies = append(policies, u.routes[i].policy)
	}
	for _, p := range policies {
		p.state = u.state
		for _, o := range observers {
			p.recorders = append(p.recorders, o.Recorder(p.Upstream, p.Route))
		}
		if len(p.recorders) == 1 {
			p.firstTry, _ = p.recorders[0].(FirstTryRecorder)
		}
	}
}

// like finds the upstream of the same name that has a host pattern of u; nil for
// none.
func (s *Snapshot) like(u *upstream) *upstream {
	if s == nil {
		return nil
	}
	for _, p := range u.hosts {
		if found := s.at(p, u.name); found != nil {
			return found
		}
	}
	return nil
}

// at finds the upstream of a name that has a host pattern; nil for none.
func (s *Snapshot) at(p document.HostPattern, name string) *upstream {
	index := s.exact
	if p.Wildcard {
		index = s.wildcard
	}
	for _, t := range index[p.Name] {
		if t.port == p.Port && t.upstream.name == name {
			return t.upstream
		}
	}
	return nil
}
