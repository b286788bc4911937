package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Defaults and bounds of Options.
const (
	minStaleAfter       = 180 * time.Second
	defaultStalePercent = 10
	defaultTombstoneFor = 10 * time.Minute
	defaultMaxDocument  = 512 << 10
)

// planner holds what the steps of one plan share.
type planner struct {
	in       *Input
	policies []*policy
	byName   map[string]*policy
	levels   levels
	resolved map[string]*resolved
	existing map[string]ExistingDocument
	targets  []*target
	voices   []Voice
	// tombstoneWait is until a tombstone can go; 0 for never.
	tombstoneWait time.Duration
	// spellings of patterns, each made once.
	spellings map[document.HostPattern]string
	// bytes of the documents that were rendered.
	bytes int
	// made is what the next plan may recall.
	made map[string]remembered
	// stack and key are buffers of stackAt and fold.
	stack []*entry
	key   []byte
}

// Plan decides what should be. It never fails: what cannot be done is said in
// the status of the policies concerned.
//
// A document that would lose its only policies because they are invalid, or
// too large, is kept as it is: it is neither rendered nor replaced by a
// tombstone.
func Plan(in Input) Output {
	in.Options = in.Options.withDefaults()
	p := &planner{in: &in, resolved: map[string]*resolved{}, byName: map[string]*policy{}, existing: map[string]ExistingDocument{}, spellings: map[document.HostPattern]string{}}
	for _, e := range in.Existing {
		p.existing[e.ConfigMap] = e
	}
	if !in.Options.ReportingDisabled {
		p.voices = in.voices()
	}
	p.policies = parsePolicies(&in)
	for _, policy := range p.policies {
		p.byName[policy.name] = policy
	}
	p.levels = settleConflicts(p.policies)
	p.aim()
	out := Output{state: p}
	for _, t := range p.targets {
		if t.rendered != nil {
			out.Documents = append(out.Documents, *t.rendered)
		}
	}
	out.Documents, out.Deletions = p.tombstones(out.Documents)
	slices.SortFunc(out.Documents, func(a, b RenderedDocument) int { return cmp.Compare(a.ConfigMap, b.ConfigMap) })
	slices.Sort(out.Deletions)
	if in.Memo != nil {
		in.Memo.documents = p.made
	}
	p.describe(&out)
	return out
}

func (o Options) withDefaults() Options {
	o.ClusterDomain = cmp.Or(o.ClusterDomain, defaultClusterDomain)
	o.StaleAfter = max(o.StaleAfter, minStaleAfter)
	o.StalePercent = max(cmp.Or(o.StalePercent, defaultStalePercent), 0)
	o.TombstoneFor = cmp.Or(o.TombstoneFor, defaultTombstoneFor)
	o.MaxDocumentBytes = cmp.Or(o.MaxDocumentBytes, defaultMaxDocument)
	return o
}

// sooner is the shorter of two waits, where 0 means never.
func sooner(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	default:
		return min(a, b)
	}
}

// target is a document that some policy needs, and what became of it.
type target struct {
	client    string
	configMap string
	// content that was merged, policies that did not fit left out.
	content *assembly
	// rendered is nil when failure is set or nothing is left to render.
	rendered *RenderedDocument
	// failure says in words why the document cannot be written.
	failure string
	// tooLarge are the policies that did not fit, and reason says how.
	tooLarge map[*policy]bool
	reason   string
}

// aim makes a target of each client that a policy which takes part names, and
// of the namespace if a policy names no client.
func (p *planner) aim() {
	clients := slices.Sorted(maps.Keys(p.levels.named))
	if len(p.levels.wide) > 0 {
		clients = append([]string{""}, clients...)
	}
	for _, client := range clients {
		if t := p.target(client); t != nil {
			p.targets = append(p.targets, t)
		}
	}
}

// target merges and renders one document.
func (p *planner) target(client string) *target {
	t := &target{client: client, configMap: v1alpha1.ConfigMapName(client)}
	t.content = p.assemble(client, nil)
	if len(t.content.policies) == 0 {
		return nil
	}
	existing := p.existing[t.configMap]
	if existing.Foreign {
		t.failure = "a ConfigMap of that name is there already and is not the operator's (label " + v1alpha1.LabelManagedBy + "): rename or delete it"
		return t
	}
	made := p.fit(t)
	if t.failure != "" || len(t.content.policies) == 0 {
		return t
	}
	t.rendered = newRendered(t.configMap, client, p.hold(made), false, existing, p.in.Now)
	return t
}

// tombstones adds what is said about documents that no policy needs any more.
func (p *planner) tombstones(documents []RenderedDocument) ([]RenderedDocument, []string) {
	aimed := map[string]bool{}
	for _, t := range p.targets {
		aimed[t.configMap] = true
	}
	var deletions []string
	for name, e := range p.existing {
		if aimed[name] || e.Foreign || name != v1alpha1.ConfigMapName(e.Client) || p.keeps(e.Client) {
			continue
		}
		empty := &assembly{client: e.Client}
		data, revision, err := empty.render(p.in.Namespace)
		if err != nil {
			continue // an empty document of a valid name always renders
		}
		made := newMade(data, revision)
		if !p.reported(e.Client) {
			// Nobody looks again because the tombstone was written: that is no news.
			left := p.in.Options.TombstoneFor
			if e.Tombstone && e.Revision == revision {
				left = e.Since.Add(left).Sub(p.in.Now)
			}
			if left <= 0 {
				deletions = append(deletions, name)
				continue
			}
			p.tombstoneWait = sooner(p.tombstoneWait, left)
		}
		documents = append(documents, *newRendered(name, e.Client, made, true, e, p.in.Now))
	}
	return documents, deletions
}

// keeps reports whether a document stays as it is though nothing was rendered
// for it: a policy that is not disabled still means to have it.
func (p *planner) keeps(client string) bool {
	return slices.ContainsFunc(p.policies, func(policy *policy) bool {
		if policy.disabled {
			return false
		}
		if client == "" {
			return len(policy.clients) == 0
		}
		return slices.Contains(policy.clients, client)
	})
}

// reported reports whether a live pod may still read a document: the client's
// own, or the namespace's for a client without one of its own.
func (p *planner) reported(client string) bool {
	for i := range p.voices {
		name := p.voices[i].client.Name
		if client == name || client == "" && p.levels.named[name] == nil {
			return true
		}
	}
	return false
}
