package plan_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// The oracle answers what holds for one request straight from the policies, by
// the rule in the package's documentation: no patterns and matches are closed
// under anything, nothing is rendered. It works on JSON and shares no code with
// the planner but parsing.

// request is a call of a client.
type request struct {
	client string
	host   string
	port   uint16
	call   document.Call
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s:%d%s grpc=%v", r.client, r.call.Method, r.host, r.port, r.call.Path, r.call.GRPC)
}

// answer is what holds, by path of the field, and where it comes from.
type answer struct {
	values, provenance map[string]string
}

// flatten lists the leaves of rules as JSON text by path. An empty block is a
// leaf too.
func flatten(t testing.TB, rules any) map[string]string {
	t.Helper()
	data, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	leaves := map[string]string{}
	for _, block := range []string{"timeouts", "retry", "deadline", "circuitBreaker"} {
		if sub, ok := tree[block].(map[string]any); ok {
			flattenBlock(leaves, block, sub)
		}
	}
	return leaves
}

func flattenBlock(leaves map[string]string, path string, block map[string]any) {
	if len(block) == 0 && (path == "circuitBreaker" || path == "retry.budget") {
		leaves[path] = "{}"
	}
	for name, value := range block {
		at := path + "." + name
		switch v := value.(type) {
		case map[string]any:
			flattenBlock(leaves, at, v)
		case string:
			if d, err := document.ParseDuration(v); err == nil {
				v = d.String()
			}
			leaves[at] = v
		case []any:
			texts := make([]string, 0, len(v))
			for _, item := range v {
				texts = append(texts, fmt.Sprint(item))
			}
			slices.Sort(texts)
			leaves[at] = strings.Join(texts, ",")
		default:
			leaves[at] = fmt.Sprint(v)
		}
	}
}

func (a *answer) lay(mark string, leaves map[string]string) {
	for path, value := range leaves {
		a.values[path], a.provenance[path] = value, mark
	}
}

// hostsOf expands an upstream, independently of the planner.
func hostsOf(u *v1alpha1.Upstream) []string {
	var hosts []string
	for _, h := range u.Hosts {
		hosts = append(hosts, string(h))
	}
	if s := u.Service; s != nil {
		namespace := cmp.Or(string(s.Namespace), "shop")
		names := []string{
			fmt.Sprintf("%s.%s", s.Name, namespace),
			fmt.Sprintf("%s.%s.svc", s.Name, namespace),
			fmt.Sprintf("%s.%s.svc.cluster.local", s.Name, namespace),
		}
		if namespace == "shop" {
			names = append(names, string(s.Name))
		}
		for _, name := range names {
			if s.Port != nil {
				name += fmt.Sprintf(":%d", *s.Port)
			}
			hosts = append(hosts, name)
		}
	}
	return hosts
}

func parsed(t testing.TB, u *v1alpha1.Upstream) []document.HostPattern {
	t.Helper()
	var patterns []document.HostPattern
	for _, h := range hostsOf(u) {
		p, err := document.ParseHostPattern(h)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	return patterns
}

// winners are the upstreams of one level that did not lose a conflict.
type contender struct {
	policy   *v1alpha1.TimeoutPolicy
	upstream *v1alpha1.Upstream
	patterns []document.HostPattern
}

func winners(t testing.TB, policies []v1alpha1.TimeoutPolicy, client string) []contender {
	t.Helper()
	var level []*v1alpha1.TimeoutPolicy
	for i := range policies {
		p := &policies[i]
		named := client != "" && slices.Contains(p.Spec.Clients, v1alpha1.ClientName(client))
		if p.Spec.Mode == v1alpha1.ModeDisabled || len(plan.Validate(p, plan.Options{})) > 0 || named != (client != "") || client == "" && len(p.Spec.Clients) > 0 {
			continue
		}
		level = append(level, p)
	}
	slices.SortFunc(level, func(a, b *v1alpha1.TimeoutPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	taken := map[document.HostPattern]bool{}
	var won []contender
	for _, p := range level {
		for j := range p.Spec.Upstreams {
			c := contender{p, &p.Spec.Upstreams[j], parsed(t, &p.Spec.Upstreams[j])}
			if slices.ContainsFunc(c.patterns, func(h document.HostPattern) bool { return taken[h] }) {
				continue
			}
			for _, h := range c.patterns {
				taken[h] = true
			}
			won = append(won, c)
		}
	}
	return won
}

// oracle answers requests from policies, by the rule and not by documents. It
// keeps who won at which level: that does not depend on the request.
type oracle struct {
	policies []v1alpha1.TimeoutPolicy
	won      map[string][]contender
}

func newOracle(policies []v1alpha1.TimeoutPolicy) *oracle {
	return &oracle{policies, map[string][]contender{}}
}

func (o *oracle) winners(t testing.TB, client string) []contender {
	t.Helper()
	won, known := o.won[client]
	if !known {
		won = winners(t, o.policies, client)
		o.won[client] = won
	}
	return won
}

// ask folds the policies for one request. It returns nil when no policy has an
// upstream for it.
func (o *oracle) ask(t testing.TB, r request) *answer {
	t.Helper()
	type taker struct {
		contender
		pattern document.HostPattern
	}
	a := &answer{map[string]string{}, map[string]string{}}
	found, routeScope := false, false
	levels := [][]contender{o.winners(t, "")}
	if r.client != "" {
		levels = append(levels, o.winners(t, r.client))
	}
	for _, level := range levels {
		best := map[string]taker{}
		for _, c := range level {
			for _, h := range c.patterns {
				if old, ok := best[c.policy.Name]; h.Matches(r.host, r.port) && (!ok || h.Compare(old.pattern) < 0) {
					best[c.policy.Name] = taker{c, h}
				}
			}
		}
		takers := make([]taker, 0, len(best))
		for _, b := range best {
			takers = append(takers, b)
		}
		slices.SortFunc(takers, func(x, y taker) int { return y.pattern.Compare(x.pattern) })
		for _, b := range takers {
			found = true
			mark := fmt.Sprintf("shop/%s@%d", b.policy.Name, b.policy.Generation)
			lay := func(rules any, isRoute bool) {
				leaves := flatten(t, rules)
				if _, ok := leaves["timeouts.scope"]; ok {
					routeScope = isRoute
				}
				a.lay(mark, leaves)
			}
			if b.policy.Spec.Mode != "" {
				a.lay(mark, map[string]string{"mode": string(b.policy.Spec.Mode)})
			}
			if b.policy.Spec.OnUnsupported != "" {
				a.lay(mark, map[string]string{"onUnsupported": string(b.policy.Spec.OnUnsupported)})
			}
			if b.policy.Spec.Defaults != nil {
				lay(b.policy.Spec.Defaults, false)
			}
			lay(&b.upstream.Rules, false)
			if route := bestRoute(b.upstream, r.call); route != nil {
				lay(&route.Rules, true)
			}
		}
	}
	if !found {
		return nil
	}
	for _, block := range []string{"circuitBreaker", "retry.budget"} {
		for path := range a.values {
			if strings.HasPrefix(path, block+".") {
				delete(a.values, block)
				delete(a.provenance, block)
			}
		}
	}
	// Written as the default that they are; the provenance stays.
	if a.values["timeouts.scope"] == "Body" && !routeScope {
		delete(a.values, "timeouts.scope")
	}
	if a.values["deadline.header"] == "" {
		delete(a.values, "deadline.header")
	}
	return a
}

func bestRoute(u *v1alpha1.Upstream, call document.Call) *v1alpha1.Route {
	var best *v1alpha1.Route
	var bestMatch document.Match
	for i := range u.Routes {
		m := document.Match{Path: u.Routes[i].Match.Path, PathMatch: document.PathMatch(u.Routes[i].Match.PathMatch)}
		for _, method := range u.Routes[i].Match.Methods {
			m.Methods = append(m.Methods, string(method))
		}
		if g := u.Routes[i].Match.GRPC; g != nil {
			m.GRPC = &document.GRPCMatch{Service: g.Service, Method: g.Method}
		}
		if m.Matches(call) && (best == nil || m.Compare(&bestMatch) < 0) {
			best, bestMatch = &u.Routes[i], m
		}
	}
	return best
}

// look answers the same from the rendered documents.
func look(t testing.TB, docs map[string]*document.Document, r request) *answer {
	t.Helper()
	doc := docs[r.client]
	if doc == nil {
		doc = docs[""]
	}
	if doc == nil {
		return nil
	}
	u, route := doc.Lookup(r.host, r.port, r.call)
	if u == nil {
		return nil
	}
	a := &answer{map[string]string{}, map[string]string{}}
	rules, provenance := u.Rules, u.Provenance
	if route != nil {
		rules, provenance = route.Rules, route.Provenance
	}
	a.values = flatten(t, rules)
	for path, mark := range provenance {
		a.provenance[path] = mark
	}
	for path, value := range map[string]string{"mode": string(u.Mode), "onUnsupported": string(u.OnUnsupported)} {
		if value != "" {
			a.values[path] = value
			a.provenance[path] = u.Provenance[path]
		}
	}
	return a
}

func documents(t testing.TB, out plan.Output) map[string]*document.Document {
	t.Helper()
	docs := map[string]*document.Document{}
	for _, d := range out.Documents {
		if !d.Tombstone {
			docs[d.Client] = documentOf(t, out, d.Client)
		}
	}
	return docs
}

func markOf(p *v1alpha1.TimeoutPolicy) string {
	return fmt.Sprintf("%s/%s@%d", p.Namespace, p.Name, p.Generation)
}
