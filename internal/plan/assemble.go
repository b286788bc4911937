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

// errTooMany is why a document cannot hold its policies though its bytes would
// fit.
var errTooMany = errors.New("an upstream would have more than 256 routes")

// assembly is the content of one document before it is rendered.
type assembly struct {
	client string
	// policies that take part, the oldest first.
	policies []*policy
	// parts are what it is made of, each once.
	parts []*resolved
	// at finds the part of a pattern that some policy lists.
	at map[document.HostPattern]*resolved
	// upstreams of the document, and of each the print without its hosts.
	upstreams []document.Upstream
	prints    []string
	// err is errTooMany or nil.
	err error
}

// assemble merges the policies for one client; those in without are left out.
func (p *planner) assemble(client string, without map[*policy]bool) *assembly {
	named := p.levels.named[client]
	a := &assembly{client: client, at: map[document.HostPattern]*resolved{}}
	seen, used := map[*policy]bool{}, map[*resolved]bool{}
	groups := map[string]int{}
	hosts := [][]string{}
	heads := []*resolved{}
	patterns := closePatterns(p.levels.wide, named, without)
	for _, h := range patterns {
		part := p.resolveAt(h.pattern, named, without)
		if part == nil || h.derived && part.print == a.at[h.parent()].print {
			continue
		}
		a.at[h.pattern] = part
		if part.tooMany {
			// Which policies take part is known all the same.
			a.err = errTooMany
		}
		i, known := groups[part.print]
		if !known {
			i = len(hosts)
			groups[part.print] = i
			hosts = append(hosts, nil)
			heads = append(heads, part)
		}
		hosts[i] = append(hosts[i], h.pattern.String())
		if !used[part] {
			used[part] = true
			a.parts = append(a.parts, part)
		}
		for _, e := range part.stack {
			seen[e.policy] = true
		}
	}
	for i, part := range heads {
		for chunk := range slices.Chunk(hosts[i], maxHosts) {
			u := part.upstream
			u.Hosts = chunk
			a.upstreams = append(a.upstreams, u)
			a.prints = append(a.prints, part.print)
		}
	}
	for _, policy := range p.policies {
		if seen[policy] {
			a.policies = append(a.policies, policy)
		}
	}
	return a
}

// resolveAt folds the entries that cover a pattern, once for each stack.
func (p *planner) resolveAt(h document.HostPattern, named claims, without map[*policy]bool) *resolved {
	wide := p.levels.wide.covering(p.stack[:0], h, without)
	slices.Reverse(wide)
	split := len(wide)
	stack := named.covering(wide, h, without)
	slices.Reverse(stack[split:])
	p.stack = stack
	if len(stack) == 0 {
		return nil
	}
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
// already are a pattern for any port with the port of a wildcard above it.
func closePatterns(wide, named claims, without map[*policy]bool) []hostPattern {
	listed := make(map[document.HostPattern]bool, len(wide)+len(named))
	all := make([]hostPattern, 0, len(wide)+len(named))
	ports := map[string][]uint16{}
	for _, level := range []claims{wide, named} {
		for pattern, e := range level {
			if listed[pattern] || without[e.policy] {
				continue
			}
			listed[pattern] = true
			all = append(all, hostPattern{pattern: pattern})
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
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b hostPattern) int { return b.pattern.Compare(a.pattern) })
	return all
}

// document puts the assembly into the form that is rendered.
func (a *assembly) document(namespace string) *document.Document {
	d := &document.Document{
		Schema:    document.Schema,
		Namespace: namespace,
		Client:    a.client,
		Tombstone: len(a.policies) == 0,
		Upstreams: a.upstreams,
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
