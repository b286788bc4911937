package plan

import (
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// effective is the result of a fold: each setting's value and the policy that
// it comes from. The zero value is the library default, which sets nothing.
type effective struct {
	values [settingCount]any
	from   [settingCount]*policy
	// routeScope says that timeouts.scope comes from a route.
	routeScope bool
}

// apply lays a layer of a policy over what is there.
func (e *effective) apply(p *policy, l layer, isRoute bool) {
	for _, s := range l {
		e.values[s.id], e.from[s.id] = s.value, p
		if s.id == fields.TimeoutsScope {
			e.routeScope = isRoute
		}
	}
}

// foldOne adds what one entry says for a match: the policy's defaults, the
// entry itself, its most specific route that covers the match. It returns that
// route, if there is one.
func (e *effective) foldOne(from *entry, m *document.Match) *route {
	e.apply(from.policy, from.policy.defaults, false)
	e.apply(from.policy, from.rules, false)
	r := from.routeCovering(m)
	if r != nil {
		e.apply(from.policy, r.rules, true)
	}
	return r
}

func (e *entry) routeCovering(m *document.Match) *route {
	for i := range e.routes {
		if e.routes[i].match.Covers(m) {
			return &e.routes[i]
		}
	}
	return nil
}

// rules writes the result as rules of a document, with provenance.
//
// A scope of Body that no route says itself is the default put into words: its
// provenance is kept, but the value is not written, since a reader takes it as
// the wish that streams too be cut.
func (e *effective) rules() (document.Rules, map[string]string) {
	var rules document.Rules
	provenance := map[string]string{}
	for i := range fields.All {
		id, field := fields.ID(i), &fields.All[i]
		if e.from[id] == nil {
			continue
		}
		if !field.Block || !e.hasChild(id) {
			provenance[field.Path] = e.from[id].mark
		}
		if id == fields.TimeoutsScope && e.values[id] == document.ScopeBody && !e.routeScope {
			continue
		}
		field.Put(&rules, e.values[id])
	}
	if len(provenance) == 0 {
		provenance = nil
	}
	return rules, provenance
}

// hasChild reports whether a field of a block is set.
func (e *effective) hasChild(block fields.ID) bool {
	for _, id := range children(block) {
		if e.from[id] != nil {
			return true
		}
	}
	return false
}

// children lists the fields of a block.
func children(block fields.ID) []fields.ID {
	var ids []fields.ID
	for id := int(block) + 1; id < fields.Count && strings.HasPrefix(fields.All[id].Path, fields.All[block].Path+"."); id++ {
		ids = append(ids, fields.ID(id))
	}
	return ids
}

// owners lists the policies that a need of the given field is owed to.
func (e *effective) owners(path string) []*policy {
	if path == settingPath(modeID) {
		return present(e.from[modeID])
	}
	for i := range fields.All {
		id := fields.ID(i)
		switch {
		case fields.All[i].Path != path:
		case id == fields.TimeoutsScope && e.from[id] == nil:
			return present(e.from[fields.TimeoutsTotal])
		case fields.All[i].Block:
			owners := present(e.from[id])
			for _, child := range children(id) {
				owners = append(owners, present(e.from[child])...)
			}
			return owners
		default:
			return present(e.from[id])
		}
	}
	return nil
}

func present(p *policy) []*policy {
	if p == nil {
		return nil
	}
	return []*policy{p}
}
