package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// maxHosts is how many hosts one upstream of a document can have.
const maxHosts = 1024

// maxPatterns is how many host patterns a document can have. Policies list fewer;
// hosts for any port under wildcards for many ports multiply.
const maxPatterns = 1 << 15

// Why a document cannot hold its policies. Each ends the merge at once: what a
// namespace asks for is bounded by what fits, not by what its policies multiply
// to.
var (
	errTooManyRoutes = errors.New("an upstream would have more than 256 routes")
	errTooManyHosts  = fmt.Errorf("there would be more than %d combinations of hosts and ports", maxPatterns)
)

// errTooLarge is for content that is beyond all doubt more than fits.
func errTooLarge(limit int) error {
	return fmt.Errorf("the document would have more than %d bytes", limit)
}

// assembly is the content of one document before it is rendered.
type assembly struct {
	client string
	// policies that take part, the oldest first.
	policies []*policy
	// parts are what it is made of, each once.
	parts []*resolved
	// at finds the part of a pattern that some policy lists.
	at map[document.HostPattern]*resolved
	// groups are the upstreams of the document.
	groups []hostGroup
	// err says why the content is incomplete, and nil that it is not.
	err error
	// size is about how many bytes the content takes.
	size int
}

// assemble merges the policies for one client; those in without are left out.
// Where there is far too much, it stops with an err, and only which policies take
// part is known.
func (p *planner) assemble(client string, without map[*policy]bool) *assembly {
	named := p.levels.named[client]
	a := &assembly{client: client, at: map[document.HostPattern]*resolved{}}
	// Each pattern is covered by the entry that lists it at least.
	seen := map[*policy]bool{}
	for _, level := range []claims{p.levels.wide, named} {
		for _, e := range level {
			seen[e.policy] = !without[e.policy]
		}
	}
	for _, policy := range p.policies {
		if seen[policy] {
			a.policies = append(a.policies, policy)
		}
	}
	patterns, ok := closePatterns(p.levels.wide, named, without)
	if !ok {
		a.err = errTooManyHosts
	}
	g := &grouping{assembly: a, used: map[*resolved]bool{}, index: map[string]int{}}
	for _, h := range patterns {
		p.add(g, h, p.stackAt(h.pattern, named, without))
		if a.err != nil {
			break
		}
	}
	return a
}

// add enters what a stack of entries says for a pattern.
func (p *planner) add(g *grouping, h hostPattern, stack []*entry) {
	part := p.fold(stack)
	if h.derived && part.print == g.assembly.at[h.parent()].print {
		return
	}
	g.add(h.pattern, p.spelled(h.pattern), part)
	switch a, limit := g.assembly, p.in.Options.MaxDocumentBytes; {
	case part.tooMany:
		a.err = errTooManyRoutes
	// The size is no more than an estimate, so it has to be far beyond.
	case a.size > 2*limit:
		a.err = errTooLarge(limit)
	}
}

// hostGroup is parts that mean the same: the first of them, and the hosts of all.
type hostGroup struct {
	part  *resolved
	hosts []string
}

// grouping makes the groups of an assembly.
type grouping struct {
	assembly *assembly
	used     map[*resolved]bool
	index    map[string]int
}

func (g *grouping) add(pattern document.HostPattern, host string, part *resolved) {
	a := g.assembly
	a.at[pattern] = part
	if !g.used[part] {
		g.used[part] = true
		a.parts = append(a.parts, part)
	}
	i, known := g.index[part.print]
	if !known {
		i = len(a.groups)
		g.index[part.print] = i
		a.groups = append(a.groups, hostGroup{part: part})
		a.size += len(part.print)
	}
	a.groups[i].hosts = append(a.groups[i].hosts, host)
	a.size += len(host)
}

// spelled writes a pattern; one that is in many documents is written once.
func (p *planner) spelled(pattern document.HostPattern) string {
	text, known := p.spellings[pattern]
	if !known {
		text = pattern.String()
		p.spellings[pattern] = text
	}
	return text
}

// stackAt lists the entries that cover a pattern, in the order of the fold. It is
// valid until the next call.
func (p *planner) stackAt(h document.HostPattern, named claims, without map[*policy]bool) []*entry {
	wide := p.levels.wide.covering(p.stack[:0], h, without)
	slices.Reverse(wide)
	split := len(wide)
	stack := named.covering(wide, h, without)
	slices.Reverse(stack[split:])
	p.stack = stack
	return stack
}

// fold resolves a stack of entries, each stack once.
func (p *planner) fold(stack []*entry) *resolved {
	p.key = p.key[:0]
	for _, e := range stack {
		p.key = binary.BigEndian.AppendUint32(p.key, e.id)
	}
	part := p.resolved[string(p.key)]
	if part == nil {
		part = resolve(slices.Clone(stack))
		p.resolved[string(p.key)] = part
	}
	return part
}

// hostPattern is a pattern that a document needs.
type hostPattern struct {
	pattern document.HostPattern
	// derived says that no policy lists it: it is a listed pattern without a
	// port, cut down to the port of a wildcard that covers it.
	derived bool
}

// parent is the listed pattern that a derived one was cut from.
func (h hostPattern) parent() document.HostPattern {
	parent := h.pattern
	parent.Port = 0
	return parent
}

// closePatterns lists the patterns of both levels, closed under intersection,
// the least specific first. The only intersections that are not in the list
// already are a pattern for any port with the port of a wildcard above it. False
// means that there are too many.
func closePatterns(wide, named claims, without map[*policy]bool) ([]hostPattern, bool) {
	expected := min(len(wide)+len(named), maxPatterns+1)
	listed := make(map[document.HostPattern]bool, expected)
	all := make([]hostPattern, 0, expected)
	ports := map[string][]uint16{}
	for _, level := range []claims{wide, named} {
		for pattern, e := range level {
			if listed[pattern] || without[e.policy] {
				continue
			}
			listed[pattern] = true
			all = append(all, hostPattern{pattern: pattern})
			if len(all) > maxPatterns {
				return nil, false
			}
			if pattern.Wildcard && pattern.Port != 0 {
				ports[pattern.Name] = append(ports[pattern.Name], pattern.Port)
			}
		}
	}
	if len(ports) > 0 {
		for _, h := range all[:len(all):len(all)] {
			if h.pattern.Port != 0 {
				continue
			}
			for suffix := parentName(h.pattern.Name); suffix != ""; suffix = parentName(suffix) {
				for _, port := range ports[suffix] {
					cut := h.pattern
					cut.Port = port
					if !listed[cut] {
						listed[cut] = true
						all = append(all, hostPattern{pattern: cut, derived: true})
					}
					if len(all) > maxPatterns {
						return nil, false
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b hostPattern) int { return b.pattern.Compare(a.pattern) })
	return all, true
}

// document puts the assembly into the form that is rendered.
func (a *assembly) document(namespace string) *document.Document {
	d := &document.Document{
		Schema:    document.Schema,
		Namespace: namespace,
		Client:    a.client,
		Tombstone: len(a.policies) == 0,
	}
	for _, g := range a.groups {
		for chunk := range slices.Chunk(g.hosts, maxHosts) {
			u := g.part.upstream
			u.Hosts = chunk
			d.Upstreams = append(d.Upstreams, u)
		}
	}
	for _, p := range a.policies {
		d.Policies = append(d.Policies, document.PolicyRef{
			Namespace:  p.object.Namespace,
			Name:       p.object.Name,
			UID:        string(p.object.UID),
			Generation: p.object.Generation,
		})
	}
	return d
}

// maxIndentedBytes is how large a document may be to be written with white
// space. A larger one is not read by people, and the space, about a third of
// it, is better used for policies.
const maxIndentedBytes = 64 << 10

// render writes the document and reads it back with the code of its readers.
func (a *assembly) render(namespace string) ([]byte, string, error) {
	if a.err != nil {
		return nil, "", a.err
	}
	data, err := document.Render(a.document(namespace))
	if err != nil {
		return nil, "", fmt.Errorf("render the document: %w", err)
	}
	if len(data) > maxIndentedBytes {
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return nil, "", fmt.Errorf("compact the document: %w", err)
		}
		compact.WriteByte('\n')
		data = compact.Bytes()
	}
	parsed, err := document.Parse(data)
	if err != nil {
		return nil, "", fmt.Errorf("read back the rendered document: %w", err)
	}
	if unknown := parsed.UnknownFields(); len(unknown) > 0 {
		return nil, "", fmt.Errorf("read back the rendered document: %s is not read", unknown[0])
	}
	return data, parsed.Revision, nil
}

// youngest returns the policies that are not among the first n of the assembly.
func (a *assembly) youngest(n int) map[*policy]bool {
	without := map[*policy]bool{}
	for _, p := range a.policies[n:] {
		without[p] = true
	}
	return without
}
