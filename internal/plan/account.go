package plan

import (
	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// account collects, for one policy, what became of it in every document and
// what its readers say.
type account struct {
	policy *policy
	// documents that hold the policy, by ConfigMap.
	documents []string
	// failures say which documents could not be written, and waiting which are
	// not written yet; tooLarge which ones it did not fit into.
	failures, waiting, tooLarge []string

	tally   tally
	clients []v1alpha1.ClientStatus
	// capable and known count readers that say what they can do.
	capable, known int32

	capabilities map[string]*v1alpha1.CapabilityStatus
	unsupported  map[gapKey]*v1alpha1.UnsupportedField
	dead         map[askedKind]*v1alpha1.DeadRetryableKind
	overridden   map[v1alpha1.OverriddenField]bool
}

type gapKey struct{ upstream, field, capability string }

// accounts opens one for each policy.
func (p *planner) accounts() map[*policy]*account {
	accounts := make(map[*policy]*account, len(p.policies))
	for _, policy := range p.policies {
		accounts[policy] = &account{
			policy:       policy,
			capabilities: map[string]*v1alpha1.CapabilityStatus{},
			unsupported:  map[gapKey]*v1alpha1.UnsupportedField{},
			dead:         map[askedKind]*v1alpha1.DeadRetryableKind{},
			overridden:   map[v1alpha1.OverriddenField]bool{},
		}
	}
	return accounts
}

// outcome is what became of the writes.
type outcome struct {
	failed, pending map[string]string
}

// settle enters one document into the accounts and returns how long its readers
// can be waited for.
func (p *planner) settle(accounts map[*policy]*account, t *target, voices []Voice, out outcome) *audience {
	for policy := range t.tooLarge {
		a := accounts[policy]
		a.tooLarge = append(a.tooLarge, "ConfigMap "+p.in.Namespace+"/"+t.configMap+": "+t.reason)
	}
	name := "ConfigMap " + p.in.Namespace + "/" + t.configMap
	failure, pending := t.failure, out.pending[t.configMap]
	if failure == "" {
		failure = out.failed[t.configMap]
	}
	for _, policy := range t.content.policies {
		a := accounts[policy]
		switch {
		case failure != "":
			a.failures = append(a.failures, name+": "+failure)
		case pending != "":
			a.waiting = append(a.waiting, name+": "+pending)
		}
	}
	if t.rendered == nil {
		return nil
	}
	audience := p.listen(t, voices, failure != "" || pending != "")
	for _, policy := range t.content.policies {
		accounts[policy].hear(audience, p.existing[t.configMap].Revision)
	}
	if len(voices) > 0 {
		audience.examine(accounts)
	}
	return audience
}

// hear enters the counts of one document.
func (a *account) hear(audience *audience, existing string) {
	t := audience.target
	counts := audience.tally(a.policy)
	revision := audience.revision
	if revision == "" {
		revision = existing
	}
	a.documents = append(a.documents, t.configMap)
	a.tally.add(counts)
	a.clients = append(a.clients, v1alpha1.ClientStatus{
		Name:      t.client,
		ConfigMap: t.configMap,
		Revision:  revision,
		Reporting: counts.reporting,
		Applied:   counts.applied,
		Rejected:  counts.rejected,
		Stale:     counts.stale,
	})
}

// examine enters what the readers of one document can and cannot do.
func (a *audience) examine(accounts map[*policy]*account) {
	demands := newDemands(a.target.content)
	for _, c := range a.classes {
		ability := demands.assess(c)
		for _, policy := range a.target.content.policies {
			accounts[policy].enter(c, ability, demands.names[policy])
		}
		for n, adapter := range ability.gaps {
			accounts[n.policy].lacks(n, c, adapter)
		}
		for k, adapter := range ability.dead {
			accounts[k.policy].misses(k, c, adapter)
		}
	}
}

// enter counts a class of readers by the capabilities that the policy takes.
func (a *account) enter(c *class, ability *ability, names map[string]bool) {
	if ability.known {
		a.known += c.count
		if !ability.short[a.policy] {
			a.capable += c.count
		}
	}
	for name := range names {
		level, said := ability.levels[name]
		if !said {
			continue
		}
		s := a.capabilities[name]
		if s == nil {
			s = &v1alpha1.CapabilityStatus{Name: name}
			a.capabilities[name] = s
		}
		switch level {
		case v1alpha1.LevelNative:
			s.Native += c.count
		case v1alpha1.LevelEmulated:
			s.Emulated += c.count
		case v1alpha1.LevelDegraded:
			s.Degraded += c.count
		default:
			s.Absent += c.count
		}
	}
}

func (a *account) lacks(n need, c *class, adapter string) {
	key := gapKey{n.upstream, n.field, n.capability}
	u := a.unsupported[key]
	if u == nil {
		u = &v1alpha1.UnsupportedField{Upstream: n.upstream, Field: n.field, Capability: n.capability}
		a.unsupported[key] = u
	}
	u.Clients += c.count
	u.Example = firstText(u.Example, c.example+"/"+adapter)
}

func (a *account) misses(k askedKind, c *class, adapter string) {
	d := a.dead[k]
	if d == nil {
		d = &v1alpha1.DeadRetryableKind{Upstream: k.upstream, Kind: k.kind}
		a.dead[k] = d
	}
	d.Clients += c.count
	d.Example = firstText(d.Example, c.example+"/"+adapter)
}
