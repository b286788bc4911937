package plan

import (
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// claims say which entry has a pattern at one level, where each pattern has one
// owner at most.
type claims map[document.HostPattern]*entry

// conflict is an entry that is left out because an older policy has one of its
// patterns at the same level.
type conflict struct {
	loser, winner *entry
	pattern       document.HostPattern
	// client where it happens; empty at the level without clients.
	client string
}

// levels are the two levels of precedence of a namespace.
type levels struct {
	// wide is the level of policies without clients.
	wide claims
	// named has the level of policies that name a client, by client.
	named map[string]claims
}

// settleConflicts hands out the patterns, to the oldest policy first. An entry
// gets all of its patterns or none, and one that got none does not keep
// others from theirs.
func settleConflicts(policies []*policy) levels {
	l := levels{wide: claims{}, named: map[string]claims{}}
	for _, p := range policies {
		if !p.takesPart() {
			continue
		}
		if len(p.clients) == 0 {
			l.wide.claim(p, "")
		}
		for _, client := range p.clients {
			if l.named[client] == nil {
				l.named[client] = claims{}
			}
			l.named[client].claim(p, client)
		}
	}
	return l
}

func (c claims) claim(p *policy, client string) {
	for _, e := range p.entries {
		if pattern, winner := c.taken(e); winner != nil {
			p.conflicts = append(p.conflicts, conflict{loser: e, winner: winner, pattern: pattern, client: client})
			continue
		}
		for _, pattern := range e.patterns {
			c[pattern] = e
		}
	}
}

func (c claims) taken(e *entry) (document.HostPattern, *entry) {
	for _, pattern := range e.patterns {
		if winner := c[pattern]; winner != nil {
			return pattern, winner
		}
	}
	return document.HostPattern{}, nil
}

// covering appends the entries whose patterns cover h to stack, the most
// specific pattern first, and of each policy only the most specific one.
// Entries of the policies in without are passed over.
func (c claims) covering(stack []*entry, h document.HostPattern, without map[*policy]bool) []*entry {
	from := len(stack)
	look := func(pattern document.HostPattern) {
		e := c[pattern]
		if e == nil || without[e.policy] {
			return
		}
		for _, other := range stack[from:] {
			if other.policy == e.policy {
				return
			}
		}
		stack = append(stack, e)
	}
	ports := func(pattern document.HostPattern) {
		if h.Port != 0 {
			pattern.Port = h.Port
			look(pattern)
		}
		pattern.Port = 0
		look(pattern)
	}
	suffix := h.Name
	if !h.Wildcard {
		ports(h)
		suffix = parentName(h.Name)
	}
	for ; suffix != ""; suffix = parentName(suffix) {
		ports(document.HostPattern{Name: suffix, Wildcard: true})
	}
	return stack
}

// parentName takes the leftmost label away; "" when there is no other.
func parentName(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}
