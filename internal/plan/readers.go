package plan

import (
	"cmp"
	"slices"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// Reader is one client of one live pod, seen from one policy: what stands
// behind the numbers of a status.
type Reader struct {
	Pod    string `json:"pod"`
	Client string `json:"client"`
	// ConfigMap of the document that it should have.
	ConfigMap string `json:"configMap"`
	// Verdict is what the status counts it as.
	Verdict Verdict `json:"verdict"`
	// Delivery, State and Revision are the client's own words, Reason and
	// Message those about the policy, or else about the client.
	Delivery v1alpha1.Delivery    `json:"delivery"`
	State    v1alpha1.ClientState `json:"state"`
	Revision string               `json:"revision,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	Message  string               `json:"message,omitempty"`
	// Library that reports.
	Library string `json:"library"`
	// Known says that it tells what it can do.
	Known bool `json:"known"`
	// Unsupported lists the fields of the policy that it cannot honour, each
	// with adapter and capability, DeadKinds the retryable kinds that never
	// occur.
	Unsupported []ReaderGap      `json:"unsupported,omitempty"`
	DeadKinds   []ReaderDeadKind `json:"deadKinds,omitempty"`
}

// ReaderDeadKind is a retryable kind that an adapter of a client never ends with.
type ReaderDeadKind struct {
	Upstream string `json:"upstream"`
	Kind     string `json:"kind"`
	Adapter  string `json:"adapter"`
}

// ReaderGap is a field that a client cannot honour.
type ReaderGap struct {
	Upstream   string `json:"upstream"`
	Field      string `json:"field"`
	Capability string `json:"capability"`
	Adapter    string `json:"adapter"`
}

// Readers lists the clients that a policy is for, by pod and client. A policy
// that is not in the plan has none, and of those that were counted already
// ([Input.Voices]) nothing is known but the count.
func (o Output) Readers(policyName string) []Reader {
	if o.state == nil {
		return nil
	}
	p := o.state
	policy := p.byName[p.in.Namespace+"/"+policyName]
	if policy == nil {
		return nil
	}
	var list []Reader
	byDocument := p.readersByDocument()
	for _, t := range p.targets {
		if t.rendered == nil || !slices.Contains(t.content.policies, policy) {
			continue
		}
		unwritten := o.outcome.failed[t.configMap] != "" || o.outcome.pending[t.configMap] != ""
		audience := p.listen(t, nil, unwritten)
		demands := newDemands(t.content)
		for _, r := range byDocument[t.client] {
			list = append(list, audience.describe(r, policy, demands))
		}
	}
	slices.SortFunc(list, func(a, b Reader) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Client, b.Client))
	})
	return list
}

func (a *audience) describe(r reader, p *policy, demands *demands) Reader {
	out := Reader{
		Pod:       r.report.Name,
		Client:    r.client.Name,
		ConfigMap: a.target.configMap,
		Delivery:  r.client.Delivery,
		State:     r.client.State,
		Revision:  r.client.Revision,
		Reason:    plain(r.client.Reason),
		Message:   plain(r.client.Message),
		Library:   plain(r.report.Library.Name + " " + r.report.Library.Version),
	}
	out.Verdict = VerdictApplied
	if !a.follows(r.client) {
		out.Verdict = a.silent(r.client, r.report.CreationTimestamp.Time)
		for i := range r.client.Policies {
			if said := &r.client.Policies[i]; speaksOf(said, p) {
				if verdict, speaks := verdictOf(said); speaks {
					out.Verdict = verdict
				}
				if said.Reason != "" || said.Message != "" {
					out.Reason, out.Message = plain(said.Reason), plain(said.Message)
				}
				break
			}
		}
	}
	ability := demands.assess(&class{adapters: r.client.Adapters, upstreams: r.client.Upstreams})
	out.Known = ability.known
	for n, adapter := range ability.gaps {
		if n.policy == p {
			out.Unsupported = append(out.Unsupported, ReaderGap{n.upstream, n.field, n.capability, adapter})
		}
	}
	slices.SortFunc(out.Unsupported, func(a, b ReaderGap) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Capability, b.Capability))
	})
	for k, adapter := range ability.dead {
		if k.policy == p {
			out.DeadKinds = append(out.DeadKinds, ReaderDeadKind{k.upstream, k.kind, adapter})
		}
	}
	slices.SortFunc(out.DeadKinds, func(a, b ReaderDeadKind) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
