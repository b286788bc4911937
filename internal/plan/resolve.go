package plan

import (
	"cmp"
	"encoding/json"
	"reflect"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// resolved is what a stack of entries makes of an upstream. It is the same for
// every client with that stack.
type resolved struct {
	stack []*entry
	// upstream has no hosts.
	upstream document.Upstream
	// print is the same for two results that mean the same.
	print string
	// tooMany says that the routes cannot all be written.
	tooMany    bool
	overridden []overridden
	needs      []need
	kinds      []askedKind
}

// overridden is a field that a policy sets in vain.
type overridden struct {
	policy   *policy
	upstream string
	path     string
	by       *policy
}

// need is a capability that a field of a policy takes.
type need struct {
	policy *policy
	// upstream is the policy's own name of it; the document's may differ.
	upstream   string
	field      string
	capability string
}

// askedKind is a retryable kind that a policy asks for.
type askedKind struct {
	policy   *policy
	upstream string
	kind     string
}

// resolver folds one stack.
type resolver struct {
	stack []*entry
	out   *resolved
	// base is the fold without a route.
	base  effective
	needs map[need]bool
	kinds map[askedKind]bool
}

func resolve(stack []*entry) *resolved {
	r := &resolver{stack: stack, out: &resolved{stack: stack}, needs: map[need]bool{}, kinds: map[askedKind]bool{}}
	u := &r.out.upstream
	u.Name = stack[len(stack)-1].name

	everything := document.Match{}
	taken := make([]*route, len(stack))
	for i, e := range stack {
		taken[i] = r.base.foldOne(e, &everything)
	}
	u.Rules, u.Provenance = r.base.rules()
	u.Mode, _ = r.base.values[modeID].(document.Mode)
	u.OnUnsupported, _ = r.base.values[onUnsupportedID].(document.OnUnsupported)
	for _, id := range []fields.ID{modeID, onUnsupportedID} {
		if p := r.base.from[id]; p != nil {
			if u.Provenance == nil {
				u.Provenance = map[string]string{}
			}
			u.Provenance[settingPath(id)] = p.mark
		}
	}
	r.noteOverridden(&r.base, taken, "")
	r.noteNeeds(&r.base, &document.Upstream{Mode: u.Mode, Rules: u.Rules})
	r.routes()
	r.out.collectNeeds(r)
	if data, err := json.Marshal(u); err == nil {
		r.out.print = string(data)
	}
	return r.out
}

// routes adds the routes. A derived one that says what the next less specific
// one says is left out; going from the least specific on, that changes no
// answer.
func (r *resolver) routes() {
	matches, ok := closeMatches(r.stack)
	if !ok {
		r.out.tooMany = true
		return
	}
	u := &r.out.upstream
	for i := range matches {
		m := &matches[i].match
		var e effective
		taken := make([]*route, len(r.stack))
		for j, from := range r.stack {
			taken[j] = e.foldOne(from, m)
		}
		out := document.Route{Name: routeName(taken, m), Match: *m}
		out.Rules, out.Provenance = e.rules()
		if matches[i].derived && r.redundant(&out) {
			continue
		}
		u.Routes = append(u.Routes, out)
		r.noteOverridden(&e, taken, out.Name)
		r.noteNeeds(&e, &document.Upstream{Rules: out.Rules})
	}
	r.out.tooMany = len(u.Routes) > maxRoutes
}

// routeName is the name that the most significant policy gives to exactly this
// match, or else the name of the most significant route that takes part.
func routeName(taken []*route, m *document.Match) string {
	name := ""
	for i := len(taken) - 1; i >= 0; i-- {
		switch {
		case taken[i] == nil:
		case taken[i].match.Key() == m.Key():
			return taken[i].name
		case name == "":
			name = taken[i].name
		}
	}
	return name
}

func (r *resolver) redundant(route *document.Route) bool {
	routes := r.out.upstream.Routes
	for i := len(routes) - 1; i >= 0; i-- {
		if routes[i].Match.Covers(&route.Match) {
			return routes[i].Name == route.Name &&
				reflect.DeepEqual(routes[i].Rules, route.Rules) &&
				reflect.DeepEqual(routes[i].Provenance, route.Provenance)
		}
	}
	return false
}

// noteOverridden notes what each policy of the stack sets without effect.
func (r *resolver) noteOverridden(e *effective, taken []*route, routeName string) {
	for i, from := range r.stack {
		note := func(l layer, own string) {
			for _, s := range l {
				by := e.from[s.id]
				if by == from.policy || s.id < modeID && fields.All[s.id].Block {
					continue
				}
				if routeName != "" && (s.id >= modeID || own == "" && r.base.from[s.id] == by) {
					continue // said of the upstream already
				}
				o := overridden{policy: from.policy, upstream: from.name, path: settingPath(s.id), by: by}
				if routeName != "" {
					o.path = "routes[" + cmp.Or(own, routeName) + "]." + o.path
				}
				r.out.overridden = append(r.out.overridden, o)
			}
		}
		note(from.policy.defaults, "")
		note(from.rules, "")
		if taken[i] != nil {
			note(taken[i].rules, taken[i].name)
		}
	}
}

// noteNeeds notes what the rules take, and of whom.
func (r *resolver) noteNeeds(e *effective, u *document.Upstream) {
	for _, n := range capability.Needs(u) {
		for _, p := range e.owners(n.Field) {
			r.needs[need{policy: p, upstream: r.out.nameFor(p), field: n.Field, capability: string(n.Capability)}] = true
		}
	}
	if p := e.from[fields.RetryKinds]; p != nil {
		kinds, _ := e.values[fields.RetryKinds].([]string)
		for _, kind := range kinds {
			r.kinds[askedKind{policy: p, upstream: r.out.nameFor(p), kind: kind}] = true
		}
	}
}

// nameFor is the name that a policy of the stack has for the upstream.
func (out *resolved) nameFor(p *policy) string {
	for _, e := range out.stack {
		if e.policy == p {
			return e.name
		}
	}
	return ""
}

func (out *resolved) collectNeeds(r *resolver) {
	for n := range r.needs {
		out.needs = append(out.needs, n)
	}
	for k := range r.kinds {
		out.kinds = append(out.kinds, k)
	}
}
