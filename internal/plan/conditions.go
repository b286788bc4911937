package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

const (
	// maxMessage bounds the message of a condition, in bytes.
	maxMessage = 1024
	// maxNamed is how many things of one kind a message names.
	maxNamed = 3
)

func previous(p *policy, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(p.object.Status.Conditions, conditionType)
}

// heldBefore reports whether a condition was True for this very generation.
func heldBefore(p *policy, conditionType string) bool {
	old := previous(p, conditionType)
	return old != nil && old.Status == metav1.ConditionTrue && old.ObservedGeneration == p.object.Generation
}

func condition(conditionType string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// several joins the first few texts and says how many more there are.
func several(texts []string) string {
	if len(texts) <= maxNamed {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:maxNamed], "; "), len(texts)-maxNamed)
}

// verdicts are the conditions of a policy, in the order in which Ready looks at
// them, Ready last.
func (p *planner) verdicts(a *account) []metav1.Condition {
	v := []metav1.Condition{
		accepted(a.policy),
		p.resolvedRefs(a.policy),
		programmed(a),
		p.acknowledged(a),
		p.capable(a),
	}
	return append(v, ready(v))
}

func accepted(p *policy) metav1.Condition {
	if len(p.faults) > 0 {
		texts := make([]string, 0, len(p.faults))
		for i := range p.faults {
			texts = append(texts, plain(p.faults[i].Error()))
		}
		return condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid, "%s", several(texts))
	}
	if len(p.conflicts) > 0 {
		return condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflicted, "%s", several(conflictTexts(p)))
	}
	message := "the policy is valid"
	if p.disabled {
		message += "; mode is Disabled, so it takes no part"
	}
	return condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "%s", message)
}

// conflictTexts says each conflict once, with the clients where it happens.
func conflictTexts(p *policy) []string {
	var texts []string
	clients := map[string][]string{}
	for _, c := range p.conflicts {
		text := fmt.Sprintf("upstream %s: host %s belongs to the older policy %s (upstream %s)", c.loser.name, c.pattern, c.winner.policy.name, c.winner.name)
		if clients[text] == nil {
			texts = append(texts, text)
		}
		clients[text] = append(clients[text], c.client)
	}
	for i, text := range texts {
		names := clients[text]
		if names[0] == "" {
			continue
		}
		texts[i] += " for client " + strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			texts[i] += fmt.Sprintf(" and %d more", more)
		}
	}
	return texts
}

func (p *planner) resolvedRefs(policy *policy) metav1.Condition {
	var services, ports []string
	for i := range policy.object.Spec.Upstreams {
		u := &policy.object.Spec.Upstreams[i]
		if u.Service == nil {
			continue
		}
		ref := serviceName(policy.object.Namespace, u.Service)
		service, found := p.in.Services[ref]
		switch {
		case !found:
			services = append(services, plain(fmt.Sprintf("upstream %s: there is no Service %s", u.Name, ref)))
		case u.Service.Port != nil && len(service.Ports) > 0 && !slices.Contains(service.Ports, *u.Service.Port):
			ports = append(ports, plain(fmt.Sprintf("upstream %s: the Service %s has no port %d", u.Name, ref, *u.Service.Port)))
		}
	}
	switch {
	case len(services) > 0:
		return condition(v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonServiceNotFound, "%s", several(append(services, ports...)))
	case len(ports) > 0:
		return condition(v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonPortNotFound, "%s", several(ports))
	default:
		return condition(v1alpha1.ConditionResolvedRefs, metav1.ConditionTrue, v1alpha1.ReasonResolvedRefs, "every Service that is named exists")
	}
}

func programmed(a *account) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, reason, format, args...)
	}
	switch {
	case len(a.policy.faults) > 0:
		return no(v1alpha1.ReasonRenderFailed, "nothing of the policy is rendered, since it is invalid")
	case a.policy.disabled:
		return no(v1alpha1.ReasonOverridden, "nothing of the policy is in force, since its mode is Disabled")
	case len(a.failures) > 0:
		return no(v1alpha1.ReasonRenderFailed, "%s", several(a.failures))
	case len(a.tooLarge) > 0:
		return no(v1alpha1.ReasonDocumentTooLarge, "%s, with this policy; older policies are rendered without it", several(a.tooLarge))
	case len(a.waiting) > 0:
		return condition(v1alpha1.ConditionProgrammed, metav1.ConditionUnknown, v1alpha1.ReasonReconciling, "%s", several(a.waiting))
	case len(a.documents) == 0:
		return no(v1alpha1.ReasonOverridden, "nothing of the policy is in force: %s", several(conflictTexts(a.policy)))
	default:
		names := make([]string, 0, len(a.documents))
		for _, name := range a.documents {
			names = append(names, "ConfigMap "+name)
		}
		return condition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "%s", several(names))
	}
}

// acknowledged is latched: what was True for this generation stays True as long
// as a document holds the policy and reports are taken.
func (p *planner) acknowledged(a *account) metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionAcknowledged, status, reason, format, args...)
	}
	t, generation := a.tally, a.policy.object.Generation
	figure := fmt.Sprintf("%d of %d clients have applied generation %d", t.applied, t.reporting, generation) + t.rest()
	switch {
	case p.in.Options.ReportingDisabled:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonReportingDisabled, "the operator runs without client reports")
	case len(a.documents) == 0:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonNoClients, "no document holds the policy")
	case heldBefore(a.policy, v1alpha1.ConditionAcknowledged):
		if t.reporting == 0 {
			figure = fmt.Sprintf("generation %d was acknowledged; no client reports now", generation)
		}
		return say(metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged, "%s", figure)
	case t.reporting == 0:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonNoClients, "no live pod reports a client that the policy is for")
	case t.rejected > 0:
		return say(metav1.ConditionFalse, v1alpha1.ReasonRejected, "%s; %s", figure, t.rejection)
	case p.waits(t):
		return say(metav1.ConditionUnknown, v1alpha1.ReasonPropagating, "%s; a mounted ConfigMap takes up to about 90s", figure)
	case t.applied == 0 && t.stale == 0:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonNoClients, "%s", figure)
	case t.applied == 0 || t.stale > p.tolerated(t):
		return say(metav1.ConditionFalse, v1alpha1.ReasonTimeout, "%s; whoever has not followed %s after the document was written is stale", figure, p.in.Options.StaleAfter)
	default:
		return say(metav1.ConditionTrue, v1alpha1.ReasonAllAcknowledged, "%s", figure)
	}
}

// waits reports whether it is worth to wait for those that are pending. Once the
// time for the document is over, a few pods that are still too young to be called
// stale are tolerated like stale ones: a stream of short-lived pods that never
// follow, such as those of a job without the mount, holds up nobody.
func (p *planner) waits(t tally) bool {
	switch {
	case t.applied == 0:
		return t.pending > 0 || t.early > 0
	case t.pending > t.young:
		return true
	default:
		return t.young > 0 && t.stale+t.young > p.tolerated(t)
	}
}

// rest says what the readers did that did not apply.
func (t *tally) rest() string {
	text := ""
	for _, part := range []struct {
		n    int32
		what string
	}{
		{t.rejected, "rejected it"}, {t.pending, "pending"}, {t.stale, "stale"},
		{t.static, "cannot be updated (delivery Static)"}, {t.unknown, "too old to tell"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// tolerated is how many stale clients do not keep a generation from being
// acknowledged.
func (p *planner) tolerated(t tally) int32 {
	return max(1, t.reporting*int32(p.in.Options.StalePercent)/100)
}

// capable follows the clients that report. Where none does, a True of this
// generation stays, so that pods that come and go do not take it back.
func (p *planner) capable(a *account) metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionCapable, status, reason, format, args...)
	}
	switch {
	case p.in.Options.ReportingDisabled:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonReportingDisabled, "the operator runs without client reports")
	case len(a.documents) > 0 && a.tally.reporting == 0 && heldBefore(a.policy, v1alpha1.ConditionCapable):
		return say(metav1.ConditionTrue, v1alpha1.ReasonAllCapable, "every client could enforce generation %d; no client reports now", a.policy.object.Generation)
	case a.known == 0:
		return say(metav1.ConditionUnknown, v1alpha1.ReasonNoClients, "no live pod reports what it can do for the policy")
	case a.capable < a.known:
		return say(metav1.ConditionFalse, v1alpha1.ReasonMissingCapability, "%d of %d clients cannot enforce all of it: %s", a.known-a.capable, a.tally.reporting, several(a.gapTexts()))
	}
	message := fmt.Sprintf("%d of %d clients can enforce all of it", a.capable, a.tally.reporting)
	if silent := a.tally.reporting - a.known; silent > 0 {
		message += fmt.Sprintf(", %d do not say", silent)
	}
	return say(metav1.ConditionTrue, v1alpha1.ReasonAllCapable, "%s", message)
}

// gapTexts names what is missing, first what most readers lack.
func (a *account) gapTexts() []string {
	var texts []string
	unsupported := sorted(a.unsupported, compareUnsupported)
	dead := sorted(a.dead, compareDead)
	for len(unsupported)+len(dead) > 0 {
		if len(dead) == 0 || len(unsupported) > 0 && unsupported[0].Clients >= dead[0].Clients {
			u := unsupported[0]
			unsupported = unsupported[1:]
			texts = append(texts, plain(fmt.Sprintf("%s of %s (%s, %d clients, such as %s)", u.Field, u.Upstream, u.Capability, u.Clients, u.Example)))
			continue
		}
		d := dead[0]
		dead = dead[1:]
		texts = append(texts, plain(fmt.Sprintf("retryable kind %s of %s never occurs (%d clients, such as %s)", d.Kind, d.Upstream, d.Clients, d.Example)))
	}
	return texts
}

// ready sums the others up.
func ready(others []metav1.Condition) metav1.Condition {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, c := range others {
			if c.Status == status {
				return condition(v1alpha1.ConditionReady, status, c.Reason, "%s: %s", c.Type, c.Message)
			}
		}
	}
	return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "accepted, programmed, acknowledged and enforceable")
}
