package plan

import (
	"fmt"
	"slices"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

const defaultClusterDomain = "cluster.local"

// serviceNames lists every spelling of a Service's in-cluster DNS name. The bare
// name is only one of them where the caller's own namespace is searched.
func serviceNames(own, namespace, name, domain string) []string {
	names := []string{
		name + "." + namespace,
		name + "." + namespace + ".svc",
		name + "." + namespace + ".svc." + domain,
	}
	if namespace == own {
		names = append(names, name)
	}
	return names
}

// patterns expands service and hosts of an upstream, in the order of
// specificity and without duplicates.
func (p *parser) patterns(path string, u *v1alpha1.Upstream) []document.HostPattern {
	var patterns []document.HostPattern
	if u.Service == nil && len(u.Hosts) == 0 {
		p.fault(path, "needs a target: set service, hosts, or both")
	}
	if u.Service != nil {
		patterns = p.servicePatterns(path+".service", u.Service)
	}
	for i, h := range u.Hosts {
		pattern, err := document.ParseHostPattern(string(h))
		if err != nil {
			p.fault(fmt.Sprintf("%s.hosts[%d]", path, i), "%v", err)
			continue
		}
		patterns = append(patterns, pattern)
	}
	slices.SortFunc(patterns, document.HostPattern.Compare)
	return slices.Compact(patterns)
}

func (p *parser) servicePatterns(path string, s *v1alpha1.ServiceReference) []document.HostPattern {
	ref := serviceName(p.policy.object.Namespace, s)
	valid := true
	for _, part := range []struct{ field, value string }{{"name", ref.Name}, {"namespace", ref.Namespace}} {
		if !isLabel(part.value) {
			p.fault(path+"."+part.field, "%q is not a name of 1 to 63 lower case letters, digits and '-'", clip(part.value, 64))
			valid = false
		}
	}
	port := uint16(0)
	if s.Port != nil {
		if *s.Port < 1 || *s.Port > 65535 {
			p.fault(path+".port", "is %d, it must be from 1 to 65535", *s.Port)
			valid = false
		}
		port = uint16(*s.Port)
	}
	if !valid {
		return nil
	}
	var patterns []document.HostPattern
	for _, name := range serviceNames(p.policy.object.Namespace, ref.Namespace, ref.Name, p.domain) {
		pattern, err := document.ParseHostPattern(name)
		if err != nil {
			p.fault(path, "%v", err)
			return nil
		}
		pattern.Port = port
		patterns = append(patterns, pattern)
	}
	return patterns
}
