package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// The two settings of a policy that are no rules but are merged like them.
const (
	modeID          = fields.ID(fields.Count)
	onUnsupportedID = modeID + 1
	settingCount    = fields.Count + 2
)

// settingPath is the path of a setting, in provenance and status.
func settingPath(id fields.ID) string {
	switch id {
	case modeID:
		return "mode"
	case onUnsupportedID:
		return "onUnsupported"
	default:
		return fields.All[id].Path
	}
}

// setting is one field that a layer of a policy sets.
type setting struct {
	id    fields.ID
	value any
}

// layer is what defaults, an upstream or a route set, in the order of IDs.
type layer []setting

// policy is a TimeoutPolicy, parsed and judged by itself.
type policy struct {
	object *v1alpha1.TimeoutPolicy
	// name is "namespace/name", mark the same with the generation: the value
	// of provenance.
	name, mark string
	// clients in order, without duplicates; empty for every client.
	clients []string
	// disabled and invalid policies take no part in the merge.
	disabled bool
	faults   []document.FieldError

	defaults layer
	entries  []*entry
	// conflicts lists the entries that older policies took away.
	conflicts []conflict
}

// entry is an upstream of a policy.
type entry struct {
	policy *policy
	// id is unique in a plan and does not depend on the order of the input.
	id   uint32
	name string
	// patterns of service and hosts, without duplicates.
	patterns []document.HostPattern
	rules    layer
	// routes, the most specific first.
	routes []route
}

// route is a route of an entry.
type route struct {
	name  string
	match document.Match
	rules layer
}

func (p *policy) takesPart() bool { return !p.disabled && len(p.faults) == 0 }

// parsePolicies parses and judges the policies of a namespace and returns them
// with the oldest first.
func parsePolicies(in *Input) []*policy {
	policies := make([]*policy, 0, len(in.Policies))
	for i := range in.Policies {
		if in.Policies[i].Namespace == in.Namespace {
			policies = append(policies, parsePolicy(&in.Policies[i], in.Options.ClusterDomain))
		}
	}
	slices.SortFunc(policies, func(a, b *policy) int {
		return cmp.Or(
			a.object.CreationTimestamp.Time.Compare(b.object.CreationTimestamp.Time),
			cmp.Compare(a.object.Name, b.object.Name),
		)
	})
	id := uint32(0)
	for _, p := range policies {
		if fault := in.Faults[p.object.Name]; fault != "" {
			p.faults = []document.FieldError{{Path: "spec", Reason: fault}}
		}
		for _, e := range p.entries {
			e.id = id
			id++
		}
	}
	return policies
}

func parsePolicy(object *v1alpha1.TimeoutPolicy, domain string) *policy {
	name := object.Namespace + "/" + object.Name
	p := &policy{
		object:   object,
		name:     name,
		mark:     fmt.Sprintf("%s@%d", name, object.Generation),
		disabled: object.Spec.Mode == v1alpha1.ModeDisabled,
	}
	for _, c := range object.Spec.Clients {
		p.clients = append(p.clients, string(c))
	}
	slices.Sort(p.clients)
	p.clients = slices.Compact(p.clients)

	parser := &parser{policy: p, domain: cmp.Or(domain, defaultClusterDomain)}
	parser.parse()
	p.faults = parser.faults
	return p
}
