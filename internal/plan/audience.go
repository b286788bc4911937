package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// reader is one client of one live pod.
type reader struct {
	report *v1alpha1.ClientReport
	client *v1alpha1.ReportedClient
}

// readersByDocument sorts the reports of the namespace by the client whose
// document they read: their own, or "" for those that no policy names.
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
			client := c.Name
			if p.levels.named[client] == nil {
				client = ""
			}
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
	// reporting is the sum of the others, static and early apart.
	reporting, applied, rejected, stale, pending, unknown int32
	// static of those that did not apply cannot be updated; for early of them
	// it is too early to call the policy overdue.
	static, early int32
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
	classes map[string]*class
}

// class is the readers of a document that say the same about what they can do.
type class struct {
	count     int32
	example   string
	adapters  []v1alpha1.ReportedAdapter
	upstreams []v1alpha1.ReportedUpstream
}

// listen counts what the readers of a document say.
func (p *planner) listen(t *target, readers []reader, unwritten bool) *audience {
	a := &audience{
		target:   t,
		now:      p.in.Now,
		patience: p.in.Options.StaleAfter,
		moved:    map[*policy]*tally{},
		classes:  map[string]*class{},
	}
	if !unwritten {
		a.revision, a.since = t.rendered.Revision, t.rendered.Since
	}
	member := make(map[*policy]bool, len(t.content.policies))
	for _, policy := range t.content.policies {
		member[policy] = true
	}
	for _, r := range readers {
		a.count(p, r, member)
		a.classify(r)
	}
	return a
}

// count adds one reader. What it says of single policies moves it from the
// common count to theirs.
func (a *audience) count(p *planner, r reader, member map[*policy]bool) {
	a.common.reporting++
	if a.follows(r) {
		a.common.applied++
		return
	}
	common := a.silent(r)
	*a.common.of(common)++
	static, early := int32(0), int32(0)
	if r.client.Delivery == v1alpha1.DeliveryStatic {
		static = 1
		if a.tooEarly(r) {
			early = 1
		}
	}
	a.common.static += static
	a.common.early += early
	spoken := map[*policy]bool{}
	for i := range r.client.Policies {
		said := &r.client.Policies[i]
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
		*moved.of(common)--
		*moved.of(verdict)++
		moved.static -= static
		moved.early -= early
		if verdict == VerdictRejected {
			moved.rejection = firstText(moved.rejection, rejectionText(r, said))
		}
	}
}

// follows reports whether a reader has the very document that it should have.
func (a *audience) follows(r reader) bool {
	return a.revision != "" && r.client.Revision == a.revision
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
// then stale.
func (a *audience) silent(r reader) Verdict {
	if r.client.Delivery == v1alpha1.DeliveryStatic {
		return VerdictStale
	}
	if r.client.Revision == "" && len(r.client.Policies) == 0 && r.client.State != v1alpha1.StateFallback {
		return VerdictUnknown
	}
	if a.tooEarly(r) {
		return VerdictPending
	}
	return VerdictStale
}

// tooEarly reports whether a reader may still get the document: it was not
// written yet, or not long ago, or the pod is younger.
func (a *audience) tooEarly(r reader) bool {
	if a.revision == "" {
		return true
	}
	from := a.since
	if created := r.report.CreationTimestamp.Time; created.After(from) {
		from = created
	}
	left := from.Add(a.patience).Sub(a.now)
	if left > 0 {
		a.wait = sooner(a.wait, left)
	}
	return left > 0
}

// tally of one policy of the document.
func (a *audience) tally(p *policy) tally {
	t := a.common
	if moved := a.moved[p]; moved != nil {
		t.add(*moved)
	}
	return t
}

func rejectionText(r reader, said *v1alpha1.ReportedPolicy) string {
	text := "pod " + r.report.Name
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

// classify adds one reader to its class.
func (a *audience) classify(r reader) {
	key := classKey(r.client)
	c := a.classes[key]
	if c == nil {
		c = &class{adapters: r.client.Adapters, upstreams: r.client.Upstreams}
		a.classes[key] = c
	}
	c.count++
	c.example = firstText(c.example, r.report.Name)
}

func classKey(c *v1alpha1.ReportedClient) string {
	var b strings.Builder
	for i := range c.Adapters {
		adapter := &c.Adapters[i]
		b.WriteString(adapter.Name)
		for _, name := range slices.Sorted(maps.Keys(adapter.Capabilities)) {
			b.WriteString("," + string(name) + "=" + string(adapter.Capabilities[name]))
		}
		b.WriteByte(';')
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		b.WriteString("|" + u.Name + "," + u.Adapter)
		for _, gap := range u.Unsupported {
			b.WriteString("," + gap.Field + "=" + string(gap.Capability))
		}
		for _, kind := range u.DeadKinds {
			b.WriteString("," + string(kind))
		}
	}
	return b.String()
}
