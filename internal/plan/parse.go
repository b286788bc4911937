package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// parser turns the spec of one policy into layers and collects what is wrong
// with it. It takes nothing for granted: the object may have been stored under
// an older schema, or under none.
type parser struct {
	policy *policy
	domain string
	faults []document.FieldError
	// probe holds the rules of every layer, for the checks that documents and
	// policies have in common, and origins the API path of each of its entries.
	probe   document.Document
	origins []string
}

func (p *parser) fault(path, format string, args ...any) {
	p.faults = append(p.faults, document.FieldError{Path: path, Reason: fmt.Sprintf(format, args...)})
}

func (p *parser) parse() {
	spec := &p.policy.object.Spec
	p.checkClients(spec)
	if spec.Mode != "" && spec.Mode != v1alpha1.ModeDisabled {
		p.policy.defaults = append(p.policy.defaults, setting{modeID, document.Mode(spec.Mode)})
	}
	if !slices.Contains([]v1alpha1.Mode{"", v1alpha1.ModeEnforce, v1alpha1.ModeShadow, v1alpha1.ModeDisabled}, spec.Mode) {
		p.fault("spec.mode", "is %q, it must be Enforce, Shadow or Disabled", spec.Mode)
	}
	if spec.OnUnsupported != "" {
		p.policy.defaults = append(p.policy.defaults, setting{onUnsupportedID, document.OnUnsupported(spec.OnUnsupported)})
	}
	if !slices.Contains([]v1alpha1.OnUnsupported{"", v1alpha1.UnsupportedReport, v1alpha1.UnsupportedReject}, spec.OnUnsupported) {
		p.fault("spec.onUnsupported", "is %q, it must be Report or Reject", spec.OnUnsupported)
	}
	if spec.Defaults != nil {
		rules := p.rules("spec.defaults", spec.Defaults)
		p.addProbe("spec.defaults", document.Upstream{Name: "defaults", Rules: rules})
		defaults := newLayer(&rules, spec.Defaults)
		p.policy.defaults = append(defaults, p.policy.defaults...)
	}
	if len(spec.Upstreams) == 0 {
		p.fault("spec.upstreams", "is empty: list at least one upstream")
	}
	for i := range spec.Upstreams {
		p.upstream(fmt.Sprintf("spec.upstreams[%d]", i), &spec.Upstreams[i])
	}
	p.checkNames(spec)
	p.checkProbe()
	p.checkRelations()
}

func (p *parser) checkClients(spec *v1alpha1.TimeoutPolicySpec) {
	if spec.Clients != nil && len(spec.Clients) == 0 {
		p.fault("spec.clients", "is an empty list: name at least one client, or leave clients out for every client of the namespace")
	}
	for i, c := range spec.Clients {
		if !isLabel(string(c)) {
			p.fault(fmt.Sprintf("spec.clients[%d]", i), "%q is not a name of 1 to 63 lower case letters, digits and '-'", clip(string(c), 64))
		}
	}
}

func (p *parser) upstream(path string, u *v1alpha1.Upstream) {
	rules := p.rules(path, &u.Rules)
	e := &entry{
		policy:   p.policy,
		name:     string(u.Name),
		patterns: p.patterns(path, u),
		rules:    newLayer(&rules, &u.Rules),
	}
	probe := document.Upstream{Name: e.name, Rules: rules}
	for i := range u.Routes {
		r := &u.Routes[i]
		rules := p.rules(fmt.Sprintf("%s.routes[%d]", path, i), &r.Rules)
		match := newMatch(&r.Match)
		probe.Routes = append(probe.Routes, document.Route{Name: string(r.Name), Match: match, Rules: rules})
		e.routes = append(e.routes, route{name: string(r.Name), match: canonicalMatch(match), rules: newLayer(&rules, &r.Rules)})
	}
	slices.SortFunc(e.routes, func(a, b route) int {
		return cmp.Or(a.match.Compare(&b.match), cmp.Compare(a.name, b.name))
	})
	p.addProbe(path, probe)
	p.policy.entries = append(p.policy.entries, e)
}

// newLayer lists what rules set. The API keeps an empty header ("no header")
// and an absent one apart, which document.Rules does not.
func newLayer(r *document.Rules, api *v1alpha1.Rules) layer {
	var l layer
	for id := range fields.All {
		value := fields.All[id].Get(r)
		if fields.ID(id) == fields.DeadlineHeader && api.Deadline != nil && api.Deadline.Header != nil {
			value = *api.Deadline.Header
		}
		if value != nil {
			l = append(l, setting{fields.ID(id), value})
		}
	}
	return l
}

func newMatch(m *v1alpha1.Match) document.Match {
	out := document.Match{Path: m.Path, PathMatch: document.PathMatch(m.PathMatch)}
	for _, method := range m.Methods {
		out.Methods = append(out.Methods, string(method))
	}
	if m.GRPC != nil {
		out.GRPC = &document.GRPCMatch{Service: m.GRPC.Service, Method: m.GRPC.Method}
	}
	return out
}

// canonicalMatch gives matches that select the same calls the same form.
func canonicalMatch(m document.Match) document.Match {
	slices.Sort(m.Methods)
	m.Methods = slices.Compact(m.Methods)
	if m.Path == "" || m.PathMatch == document.PathPrefix {
		m.PathMatch = ""
	}
	if m.PathMatch == "" && len(m.Path) > 1 {
		m.Path = strings.TrimSuffix(m.Path, "/")
	}
	return m
}

// addProbe adds a layer to the probe, under a host that no other has.
func (p *parser) addProbe(path string, u document.Upstream) {
	u.Hosts = []string{fmt.Sprintf("u%d.invalid", len(p.probe.Upstreams))}
	p.probe.Upstreams = append(p.probe.Upstreams, u)
	p.origins = append(p.origins, path)
}
