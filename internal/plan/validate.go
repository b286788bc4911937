package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// Validate judges one policy by itself, as a plan does before it renders
// anything of it: the rules of the schema, and those that look at more than one
// level of the policy. It returns every fault with its path, in the order in
// which the checks find them; none means valid.
func Validate(object *v1alpha1.TimeoutPolicy, options Options) []document.FieldError {
	return parsePolicy(object, options.ClusterDomain).faults
}

// checkNames sees to it that names are unique where they have to be, and that
// no host belongs to two upstreams of the policy, however it is spelled.
func (p *parser) checkNames(spec *v1alpha1.TimeoutPolicySpec) {
	names := map[v1alpha1.Label]int{}
	owners := map[document.HostPattern]int{}
	for i := range spec.Upstreams {
		u := &spec.Upstreams[i]
		path := fmt.Sprintf("spec.upstreams[%d]", i)
		if other, taken := names[u.Name]; taken {
			p.fault(path+".name", "%q is the name of spec.upstreams[%d] already", clip(string(u.Name), 64), other)
		}
		names[u.Name] = i
		for _, pattern := range p.policy.entries[i].patterns {
			if other, taken := owners[pattern]; taken {
				p.fault(path, "host %q belongs to spec.upstreams[%d] already: list it once", pattern, other)
				break
			}
			owners[pattern] = i
		}
		routes := map[v1alpha1.Label]int{}
		for j := range u.Routes {
			if other, taken := routes[u.Routes[j].Name]; taken {
				p.fault(fmt.Sprintf("%s.routes[%d].name", path, j), "%q is the name of routes[%d] already", clip(string(u.Routes[j].Name), 64), other)
			}
			routes[u.Routes[j].Name] = j
		}
	}
}

// checkProbe has each layer judged as a reader of documents would.
func (p *parser) checkProbe() {
	for i, u := range p.probe.Upstreams {
		err := (&document.Document{Schema: document.Schema, Upstreams: []document.Upstream{u}}).Validate()
		var fault *document.FieldError
		if errors.As(err, &fault) {
			path := strings.Replace(fault.Path, "upstreams[0]", p.origins[i], 1)
			p.fault(path, "%s", fault.Reason)
		}
	}
}

// relations are pairs of limits of which the inner must not be longer than the
// outer one, each only if both exist: absent and "0s" are no limits.
var relations = [...]struct {
	inner, outer fields.ID
}{
	{fields.TimeoutsAttempt, fields.TimeoutsTotal},
	{fields.TimeoutsConnect, fields.TimeoutsAttempt},
	{fields.TimeoutsResponseHeader, fields.TimeoutsAttempt},
	{fields.RetryBackoffInitial, fields.RetryBackoffMax},
}

// checkRelations judges the effective values of the policy by itself: what an
// upstream inherits from its defaults, and a route from both.
func (p *parser) checkRelations() {
	reported := map[[2]string]bool{}
	for i, e := range p.policy.entries {
		path := "spec.upstreams[" + strconv.Itoa(i) + "]"
		p.relate(reported, placed{"spec.defaults", p.policy.defaults}, placed{path, e.rules})
		for j := range e.routes {
			// Routes are sorted here and not in the object: the name tells.
			at := fmt.Sprintf("%s.routes[%s]", path, e.routes[j].name)
			p.relate(reported, placed{"spec.defaults", p.policy.defaults}, placed{path, e.rules}, placed{at, e.routes[j].rules})
		}
	}
}

// placed is a layer with its path in the object.
type placed struct {
	path  string
	layer layer
}

func (p *parser) relate(reported map[[2]string]bool, layers ...placed) {
	var limits [fields.Count]*document.Duration
	var paths [fields.Count]string
	for _, l := range layers {
		for _, s := range l.layer {
			if d, ok := s.value.(*document.Duration); ok {
				limits[s.id], paths[s.id] = d, l.path
			}
		}
	}
	for _, r := range relations {
		inner, outer := limits[r.inner], limits[r.outer]
		if inner == nil || outer == nil || *outer == 0 || *inner <= *outer {
			continue
		}
		innerPath := paths[r.inner] + "." + fields.All[r.inner].Path
		outerPath := paths[r.outer] + "." + fields.All[r.outer].Path
		if pair := [2]string{innerPath, outerPath}; !reported[pair] {
			reported[pair] = true
			p.fault(innerPath, "%s is longer than %s, which is %s: shorten the one or raise the other (\"0s\" for no limit)", inner, outerPath, outer)
		}
	}
}

// isLabel reports whether s is a DNS label (RFC 1123).
func isLabel(s string) bool {
	if len(s) < 1 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// clip bounds foreign text that goes into a message.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
