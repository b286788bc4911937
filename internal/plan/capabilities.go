package plan

import (
	"strings"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// inUpstream is a field or kind of an upstream by the document's name.
type inUpstream struct{ upstream, what string }

// demands are the needs of the policies of one document, ready to be looked up.
type demands struct {
	content *assembly
	byField map[inUpstream][]need
	byKind  map[inUpstream][]askedKind
	// each has every need once.
	each []need
	// names are the capabilities that each policy takes.
	names map[*policy]map[string]bool
	marks map[string]*policy
}

func newDemands(content *assembly) *demands {
	d := &demands{
		content: content,
		byField: map[inUpstream][]need{},
		byKind:  map[inUpstream][]askedKind{},
		names:   map[*policy]map[string]bool{},
		marks:   map[string]*policy{},
	}
	seen := map[need]bool{}
	for _, part := range content.parts {
		for _, n := range part.needs {
			key := inUpstream{part.upstream.Name, n.field}
			d.byField[key] = append(d.byField[key], n)
			if !seen[n] {
				seen[n] = true
				d.each = append(d.each, n)
			}
			if d.names[n.policy] == nil {
				d.names[n.policy] = map[string]bool{}
			}
			d.names[n.policy][n.capability] = true
		}
		for _, k := range part.kinds {
			key := inUpstream{part.upstream.Name, k.kind}
			d.byKind[key] = append(d.byKind[key], k)
		}
	}
	for _, p := range content.policies {
		d.marks[p.mark] = p
	}
	return d
}

// owed lists the needs that a reported gap speaks of. A field that takes no
// capability as far as this version knows is owed to the policies that set it.
func (d *demands) owed(upstream, field, capability string) []need {
	if needs := d.byField[inUpstream{upstream, field}]; needs != nil {
		out := make([]need, 0, len(needs))
		for _, n := range needs {
			n.capability = capability
			out = append(out, n)
		}
		return out
	}
	var out []need
	for _, part := range d.content.parts {
		if part.upstream.Name != upstream {
			continue
		}
		for path, mark := range part.upstream.Provenance {
			if p := d.marks[mark]; p != nil && (path == field || strings.HasPrefix(path, field+".")) {
				out = append(out, need{policy: p, upstream: part.nameFor(p), field: field, capability: capability})
			}
		}
	}
	return out
}

// ability is what one class of readers makes of the demands.
type ability struct {
	// known says that the class says anything about what it can do.
	known bool
	// levels by capability, the worst of the adapters; one that is missing is
	// unknown.
	levels map[string]v1alpha1.CapabilityLevel
	// gaps, with the adapter that has them, and dead kinds.
	gaps map[need]string
	dead map[askedKind]string
	// short are the policies with a gap or a dead kind.
	short map[*policy]bool
}

func (d *demands) assess(c *class) *ability {
	a := &ability{
		known:  len(c.upstreams) > 0,
		levels: map[string]v1alpha1.CapabilityLevel{},
		gaps:   map[need]string{},
		dead:   map[askedKind]string{},
		short:  map[*policy]bool{},
	}
	lacking := map[string]string{}
	for i := range c.adapters {
		adapter := &c.adapters[i]
		for name, level := range adapter.Capabilities {
			a.known = true
			worst, seen := a.levels[string(name)]
			if !seen || rankOf(level) < rankOf(worst) {
				a.levels[string(name)] = level
			}
			if level == v1alpha1.LevelAbsent {
				lacking[string(name)] = firstText(lacking[string(name)], adapter.Name)
			}
		}
	}
	for _, n := range d.each {
		if adapter, absent := lacking[n.capability]; absent {
			a.gap(n, adapter)
		}
	}
	for i := range c.upstreams {
		u := &c.upstreams[i]
		for _, g := range u.Unsupported {
			for _, n := range d.owed(u.Name, g.Field, string(g.Capability)) {
				a.gap(n, u.Adapter)
				a.levels[n.capability] = v1alpha1.LevelAbsent
			}
		}
		for _, kind := range u.DeadKinds {
			for _, k := range d.byKind[inUpstream{u.Name, string(kind)}] {
				a.dead[k], a.short[k.policy] = firstText(a.dead[k], u.Adapter), true
			}
		}
	}
	return a
}

func (a *ability) gap(n need, adapter string) {
	a.gaps[n] = firstText(a.gaps[n], adapter)
	a.short[n.policy] = true
}

// rankOf orders levels, the worst first. What this version does not know is
// taken as absent.
func rankOf(level v1alpha1.CapabilityLevel) int {
	switch level {
	case v1alpha1.LevelNative:
		return 3
	case v1alpha1.LevelEmulated:
		return 2
	case v1alpha1.LevelDegraded:
		return 1
	default:
		return 0
	}
}
