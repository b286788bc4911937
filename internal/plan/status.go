package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// maxStatusBytes bounds a status as JSON. The bounds of the lists alone would
// let it grow beyond what is good to watch and to write.
const maxStatusBytes = 15 << 10

// WithFailures returns the output with statuses and events for the case that
// some documents could not be written: failed maps names of ConfigMaps to what
// went wrong, in words. Their policies get Programmed=False/RenderFailed and
// are not acknowledged anew; the rest stays.
func (o Output) WithFailures(failed map[string]string) Output {
	return o.with(outcome{failed: failed, pending: o.outcome.pending})
}

// WithPending returns the output with statuses and events for the case that
// some documents were left as they are for now: pending maps names of
// ConfigMaps to the reason, in words. Their policies get
// Programmed=Unknown/Reconciling and are not acknowledged anew; the rest stays.
func (o Output) WithPending(pending map[string]string) Output {
	return o.with(outcome{failed: o.outcome.failed, pending: pending})
}

func (o Output) with(out outcome) Output {
	o.outcome = out
	if o.state != nil {
		o.state.describe(&o)
	}
	return o
}

// describe fills in statuses, events and the time to look again.
func (p *planner) describe(out *Output) {
	accounts := p.accounts()
	voices := p.voicesByDocument()
	out.RequeueAfter = p.tombstoneWait
	used := map[*resolved]bool{}
	for _, t := range p.targets {
		audience := p.settle(accounts, t, voices[t.client], out.outcome)
		if audience != nil {
			out.RequeueAfter = sooner(out.RequeueAfter, audience.wait)
		}
		for _, part := range t.content.parts {
			if !used[part] {
				used[part] = true
				noteOverridden(accounts, part)
			}
		}
	}
	out.Statuses, out.Events = nil, nil
	for _, policy := range slices.SortedFunc(slices.Values(p.policies), func(a, b *policy) int { return cmp.Compare(a.name, b.name) }) {
		status := p.status(accounts[policy])
		old := &policy.object.Status
		changed := !sameButRevisions(&status, old)
		if !changed {
			status = *old
		}
		out.Statuses = append(out.Statuses, PolicyStatus{
			Name:    policy.object.Name,
			UID:     policy.object.UID,
			Status:  status,
			Changed: changed,
		})
		out.Events = append(out.Events, eventsOf(policy.object.Name, old.Conditions, status.Conditions)...)
	}
}

// sameButRevisions reports whether a status says what the stored one says, the
// revisions of documents left out of account: a document has a new one with every
// edit of any of its policies, and if the statuses of all the others followed,
// one edit would cost as many writes as there are policies.
func sameButRevisions(status, old *v1alpha1.TimeoutPolicyStatus) bool {
	if len(status.Clients) != len(old.Clients) || status.Summary.Revision == "" != (old.Summary.Revision == "") {
		return false
	}
	as := *status
	as.Summary.Revision = old.Summary.Revision
	as.Clients = slices.Clone(status.Clients)
	for i := range as.Clients {
		if as.Clients[i].Revision == "" != (old.Clients[i].Revision == "") {
			return false
		}
		as.Clients[i].Revision = old.Clients[i].Revision
	}
	return equality.Semantic.DeepEqual(&as, old)
}

func noteOverridden(accounts map[*policy]*account, part *resolved) {
	for _, o := range part.overridden {
		accounts[o.policy].overridden[v1alpha1.OverriddenField{Upstream: o.upstream, Path: clip(o.path, 200), By: o.by.name}] = true
	}
}

// status puts an account into the form of the API.
func (p *planner) status(a *account) v1alpha1.TimeoutPolicyStatus {
	s := v1alpha1.TimeoutPolicyStatus{
		ObservedGeneration: a.policy.object.Generation,
		Conditions:         p.conditions(a),
		Summary:            p.summary(a),
		Clients:            slices.Clone(a.clients),
		Capabilities:       sorted(a.capabilities, compareCapabilities),
		Unsupported:        sorted(a.unsupported, compareUnsupported),
		DeadRetryableKinds: sorted(a.dead, compareDead),
		Overridden:         slices.SortedFunc(maps.Keys(a.overridden), compareOverridden),
	}
	slices.SortFunc(s.Clients, compareClients)
	s.Truncated = bound(&s.Clients)
	s.Truncated = bound(&s.Capabilities) || s.Truncated
	s.Truncated = bound(&s.Unsupported) || s.Truncated
	s.Truncated = bound(&s.DeadRetryableKinds) || s.Truncated
	s.Truncated = bound(&s.Overridden) || s.Truncated
	shrink(&s)
	return s
}

func sorted[K comparable, V any](m map[K]*V, compare func(a, b V) int) []V {
	if len(m) == 0 {
		return nil
	}
	list := make([]V, 0, len(m))
	for _, v := range m {
		list = append(list, *v)
	}
	slices.SortFunc(list, compare)
	return list
}

func bound[E any](list *[]E) bool {
	if len(*list) <= v1alpha1.MaxStatusItems {
		return false
	}
	*list = (*list)[:v1alpha1.MaxStatusItems:v1alpha1.MaxStatusItems]
	return true
}

// shrink takes the last entries of the longest list away until the status is
// small enough.
func shrink(s *v1alpha1.TimeoutPolicyStatus) {
	if len(s.Clients)+len(s.Unsupported)+len(s.DeadRetryableKinds)+len(s.Overridden) <= v1alpha1.MaxStatusItems/2 {
		return
	}
	for {
		data, err := json.Marshal(s)
		if err != nil || len(data) <= maxStatusBytes {
			return
		}
		s.Truncated = true
		longest := max(len(s.Clients), len(s.Unsupported), len(s.DeadRetryableKinds), len(s.Overridden))
		switch longest {
		case 0:
			return
		case len(s.Clients):
			s.Clients = s.Clients[:longest-1]
		case len(s.Unsupported):
			s.Unsupported = s.Unsupported[:longest-1]
		case len(s.Overridden):
			s.Overridden = s.Overridden[:longest-1]
		default:
			s.DeadRetryableKinds = s.DeadRetryableKinds[:longest-1]
		}
	}
}

// The lists are in the order of what needs attention most.

func compareClients(a, b v1alpha1.ClientStatus) int {
	return cmp.Or(
		cmp.Compare(b.Reporting-b.Applied, a.Reporting-a.Applied),
		cmp.Compare(b.Rejected, a.Rejected),
		cmp.Compare(a.Name, b.Name),
	)
}

func compareCapabilities(a, b v1alpha1.CapabilityStatus) int {
	return cmp.Or(cmp.Compare(b.Absent, a.Absent), cmp.Compare(b.Degraded, a.Degraded), cmp.Compare(a.Name, b.Name))
}

func compareUnsupported(a, b v1alpha1.UnsupportedField) int {
	return cmp.Or(
		cmp.Compare(b.Clients, a.Clients),
		cmp.Compare(a.Upstream, b.Upstream),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Capability, b.Capability),
	)
}

func compareDead(a, b v1alpha1.DeadRetryableKind) int {
	return cmp.Or(cmp.Compare(b.Clients, a.Clients), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Kind, b.Kind))
}

func compareOverridden(a, b v1alpha1.OverriddenField) int {
	return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Path, b.Path), cmp.Compare(a.By, b.By))
}

// summary is the status in a few words.
func (p *planner) summary(a *account) v1alpha1.StatusSummary {
	var s v1alpha1.StatusSummary
	spec := &a.policy.object.Spec
	if len(spec.Upstreams) > 0 {
		s.Upstreams = clip(string(spec.Upstreams[0].Name), 63)
		if more := len(spec.Upstreams) - 1; more > 0 {
			s.Upstreams += fmt.Sprintf(" +%d", more)
		}
	}
	if len(a.documents) > 0 && !p.in.Options.ReportingDisabled {
		s.Acknowledged = fmt.Sprintf("%d/%d", a.tally.applied, a.tally.reporting)
		s.Capable = fmt.Sprintf("%d/%d", a.capable, a.tally.reporting)
	}
	t := p.firstTarget(a)
	if t == nil {
		return s
	}
	_, digest, _ := strings.Cut(t.rendered.Revision, ":")
	s.Revision = digest[:min(len(digest), 12)]
	part := t.content.of(a.policy)
	if part == nil {
		return s
	}
	rules := &part.upstream.Rules
	if timeouts := rules.Timeouts; timeouts != nil {
		s.Total, s.Attempt = limit(timeouts.Total), limit(timeouts.Attempt)
	}
	s.Tries = cmp.Or(fields.Format(fields.All[fields.RetryMaxAttempts].Get(rules)), fields.All[fields.RetryMaxAttempts].Default)
	return s
}

// firstTarget is the first document, by client, that holds the policy.
func (p *planner) firstTarget(a *account) *target {
	for _, t := range p.targets {
		if t.rendered != nil && slices.Contains(a.documents, t.configMap) {
			return t
		}
	}
	return nil
}

// of is what holds for the first pattern of the policy's first upstream that is
// in force.
func (a *assembly) of(p *policy) *resolved {
	for _, e := range p.entries {
		for _, pattern := range e.patterns {
			if part := a.at[pattern]; part != nil && slices.Contains(part.stack, e) {
				return part
			}
		}
	}
	return nil
}

func limit(d *document.Duration) string {
	if d == nil || *d == 0 {
		return ""
	}
	return d.String()
}

// conditions judges the account and keeps the time of each condition whose
// status did not change.
func (p *planner) conditions(a *account) []metav1.Condition {
	v := p.verdicts(a)
	conditions := make([]metav1.Condition, 0, len(v))
	for _, c := range v {
		c.ObservedGeneration = a.policy.object.Generation
		c.LastTransitionTime = metav1.Time{Time: p.in.Now.Truncate(time.Second)}
		if old := previous(a.policy, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
		c.Message = clip(c.Message, maxMessage)
		conditions = append(conditions, c)
	}
	return conditions
}
