package plan

import (
	"strings"
	"time"
	"unique"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// reader is one client of one live pod.
type reader struct {
	report *v1alpha1.ClientReport
	client *v1alpha1.ReportedClient
}

// documentOf is the client whose document a client reads: its own, or "" when
// no policy names it.
func (p *planner) documentOf(client string) string {
	if p.levels.named[client] == nil {
		return ""
	}
	return client
}

// voicesByDocument sorts the voices by the client whose document they read.
func (p *planner) voicesByDocument() map[string][]Voice {
	voices := map[string][]Voice{}
	for _, v := range p.voices {
		client := p.documentOf(v.client.Name)
		voices[client] = append(voices[client], v)
	}
	return voices
}

// readersByDocument does so with the single clients of the input's reports.
func (p *planner) readersByDocument() map[string][]reader {
	readers := map[string][]reader{}
	if p.in.Options.ReportingDisabled {
		return readers
	}
	for i := range p.in.Reports {
		report := &p.in.Reports[i]
		if report.Namespace != p.in.Namespace {
			continue
		}
		for j := range report.Clients {
			c := &report.Clients[j]
			client := p.documentOf(c.Name)
			readers[client] = append(readers[client], reader{report, c})
		}
	}
	return readers
}

// Verdict is what a reader did with one policy.
type Verdict string

// The verdicts.
const (
	// VerdictApplied: this generation is in force.
	VerdictApplied Verdict = "Applied"
	// VerdictRejected: the document with this generation was refused.
	VerdictRejected Verdict = "Rejected"
	// VerdictPending: not in force yet, and it is too early to expect it.
	VerdictPending Verdict = "Pending"
	// VerdictStale: not in force, for longer than it can take.
	VerdictStale Verdict = "Stale"
	// VerdictUnknown: the library is too old to tell.
	VerdictUnknown Verdict = "Unknown"
)

// tally counts readers by what they did with one policy.
type tally struct {
	// reporting is the sum of the others, static, early and young apart.
	reporting, applied, rejected, stale, pending, unknown int32
	// static of those that did not apply cannot be updated; for early of them
	// it is too early to call the policy overdue.
	static, early int32
	// young of those that are pending have time left only because their pods
	// came after everybody's time for the document was over.
	young int32
	// rejection is what the first pod that rejected says.
	rejection string
}

// of is the count of one verdict.
func (t *tally) of(v Verdict) *int32 {
	switch v {
	case VerdictApplied:
		return &t.applied
	case VerdictRejected:
		return &t.rejected
	case VerdictPending:
		return &t.pending
	case VerdictStale:
		return &t.stale
	default:
		return &t.unknown
	}
}

func (t *tally) add(o tally) {
	t.reporting += o.reporting
	t.applied += o.applied
	t.rejected += o.rejected
	t.stale += o.stale
	t.pending += o.pending
	t.unknown += o.unknown
	t.static += o.static
	t.early += o.early
	t.young += o.young
	t.rejection = firstText(t.rejection, o.rejection)
}

// firstText is the smaller of two texts, "" being none.
func firstText(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// audience is the readers of one document.
type audience struct {
	target *target
	// revision they should have; empty when the document was not written.
	revision string
	since    time.Time
	now      time.Time
	patience time.Duration

	// common is the tally of a policy that no reader speaks of by itself, moved
	// the difference of the others.
	common tally
	moved  map[*policy]*tally
	// wait until the next pending reader is stale; 0 for never.
	wait time.Duration
	// classes of readers that can do the same.
	classes map[unique.Handle[string]]*class
}

// class is the readers of a document that say the same about what they can do.
type class struct {
	count     int32
	example   string
	adapters  []v1alpha1.ReportedAdapter
	upstreams []v1alpha1.ReportedUpstream
}

// listen counts what the readers of a document say.
func (p *planner) listen(t *target, voices []Voice, unwritten bool) *audience {
	a := &audience{
		target:   t,
		now:      p.in.Now,
		patience: p.in.Options.StaleAfter,
		moved:    map[*policy]*tally{},
		classes:  map[unique.Handle[string]]*class{},
	}
	if !unwritten {
		a.revision, a.since = t.rendered.Revision, t.rendered.Since
	}
	member := make(map[*policy]bool, len(t.content.policies))
	for _, policy := range t.content.policies {
		member[policy] = true
	}
	for i := range voices {
		a.count(p, &voices[i], member)
		a.classify(&voices[i])
	}
	return a
}

// count adds the readers that say the same.
func (a *audience) count(p *planner, v *Voice, member map[*policy]bool) {
	a.common.reporting += v.count
	if a.follows(v.client) {
		a.common.applied += v.count
		return
	}
	for _, part := range v.cohorts {
		a.countSilent(p, v, part, member)
	}
}

// countSilent adds readers that have another document. What they say of single
// policies moves them from the common count to theirs.
func (a *audience) countSilent(p *planner, v *Voice, part cohort, member map[*policy]bool) {
	common := a.silent(v.client, part.since)
	*a.common.of(common) += part.count
	static, early, young := int32(0), int32(0), int32(0)
	if common == VerdictPending && a.over() {
		young = part.count
	}
	if v.client.Delivery == v1alpha1.DeliveryStatic {
		static = part.count
		if a.tooEarly(part.since) {
			early = part.count
		}
	}
	a.common.static += static
	a.common.early += early
	a.common.young += young
	spoken := map[*policy]bool{}
	for i := range v.client.Policies {
		said := &v.client.Policies[i]
		policy := p.byName[said.Namespace+"/"+said.Name]
		if policy == nil || !member[policy] || spoken[policy] || !speaksOf(said, policy) {
			continue
		}
		spoken[policy] = true
		verdict, speaks := verdictOf(said)
		if !speaks {
			continue
		}
		moved := a.moved[policy]
		if moved == nil {
			moved = &tally{}
			a.moved[policy] = moved
		}
		*moved.of(common) -= part.count
		*moved.of(verdict) += part.count
		moved.static -= static
		moved.early -= early
		moved.young -= young
		if verdict == VerdictRejected {
			moved.rejection = firstText(moved.rejection, rejectionText(v, said))
		}
	}
}

// follows reports whether a reader has the very document that it should have.
func (a *audience) follows(c *v1alpha1.ReportedClient) bool {
	return a.revision != "" && c.Revision == a.revision
}

// speaksOf reports whether a reader means this policy at this generation. UID
// and generation are equal or not; they are never ordered, since a policy that
// was made anew starts again at generation 1.
func speaksOf(said *v1alpha1.ReportedPolicy, p *policy) bool {
	return said.Namespace == p.object.Namespace && said.Name == p.object.Name &&
		said.UID == string(p.object.UID) && said.Generation == p.object.Generation
}

// verdictOf is what a reader says of a policy, if that says anything.
func verdictOf(said *v1alpha1.ReportedPolicy) (Verdict, bool) {
	switch said.State {
	case v1alpha1.PolicyApplied:
		return VerdictApplied, true
	case v1alpha1.PolicyRejected:
		return VerdictRejected, true
	default:
		return "", false
	}
}

// silent says as what a reader counts that has another document than it should
// and says nothing of a policy: stale at once when it cannot be updated, unknown
// when it is too old to tell, pending as long as it is too early to expect more,
// then stale. It first said something at since.
func (a *audience) silent(c *v1alpha1.ReportedClient, since time.Time) Verdict {
	if c.Delivery == v1alpha1.DeliveryStatic {
		return VerdictStale
	}
	if c.Revision == "" && len(c.Policies) == 0 && c.State != v1alpha1.StateFallback {
		return VerdictUnknown
	}
	if a.tooEarly(since) {
		return VerdictPending
	}
	return VerdictStale
}

// tooEarly reports whether a reader may still get the document: it was not
// written yet, or not long ago, or the pod is younger.
func (a *audience) tooEarly(since time.Time) bool {
	if a.revision == "" {
		return true
	}
	from := a.since
	if since.After(from) {
		from = since
	}
	for _, start := range []time.Time{a.since, from} {
		if left := start.Add(a.patience).Sub(a.now); left > 0 {
			a.wait = sooner(a.wait, left)
		}
	}
	return from.Add(a.patience).After(a.now)
}

// over reports whether everybody who was there when the document was written has
// had the time to follow.
func (a *audience) over() bool {
	return a.revision != "" && !a.since.Add(a.patience).After(a.now)
}

// tally of one policy of the document.
func (a *audience) tally(p *policy) tally {
	t := a.common
	if moved := a.moved[p]; moved != nil {
		t.add(*moved)
	}
	return t
}

func rejectionText(v *Voice, said *v1alpha1.ReportedPolicy) string {
	text := "client " + plain(v.client.Name) + " in pod " + v.example
	for _, part := range []string{said.Reason, said.Message} {
		if part = plain(part); part != "" {
			text += ": " + part
		}
	}
	return text
}

// plain makes foreign text fit for a message: one line, printable, bounded.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, clip(strings.ToValidUTF8(s, ""), 256)))
}

// classify adds readers to their class.
func (a *audience) classify(v *Voice) {
	c := a.classes[v.able]
	if c == nil {
		c = &class{adapters: v.client.Adapters, upstreams: v.client.Upstreams}
		a.classes[v.able] = c
	}
	c.count += v.count
	c.example = firstText(c.example, v.example)
}
