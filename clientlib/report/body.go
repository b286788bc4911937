package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Bounds of single texts and of the lists inside an entry, in bytes and items:
// those of the schema of ClientReport. One word beyond them, such as a failure
// kind that somebody made up in a policy, would have the whole report refused.
const (
	maxNameLength     = 253
	maxLabelLength    = 63
	maxWordLength     = 64
	maxFieldLength    = 128
	maxRevisionLength = 128
	maxItems          = 32
	shortMessage      = 64
)

// object is the ClientReport as it is sent.
type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Library    Library  `json:"library"`
	Clients    []Client `json:"clients"`
}

type metadata struct {
	Name            string           `json:"name"`
	Namespace       string           `json:"namespace"`
	OwnerReferences []ownerReference `json:"ownerReferences"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// render writes the report of a pod: the same content gives the same bytes,
// never more than MaxBytes. Clients stay as they are. What does not fit goes in
// the order of least loss: long messages, what is said elsewhere, capabilities
// that work, and last the tails of the lists, which are sorted with the worst
// entries first.
func render(pod Pod, library Library, clients []Client) []byte {
	o := object{
		APIVersion: APIVersion,
		Kind:       Kind,
		Metadata: metadata{
			Name:      pod.Name,
			Namespace: pod.Namespace,
			// It makes the report go when the pod goes.
			OwnerReferences: []ownerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Library: Library{Name: clip(library.Name, maxWordLength), Version: clip(library.Version, maxWordLength)},
		Clients: bounded(clients),
	}
	body := o.marshal()
	for _, shrink := range []func(*object, int){
		func(o *object, _ int) { o.clipMessages(shortMessage) },
		(*object).dropImpliedRevisions,
		(*object).dropEmits,
		(*object).dropWorkingCapabilities,
		func(o *object, _ int) { o.clipMessages(0) },
		(*object).dropUpstreams,
		(*object).dropAppliedPolicies,
		(*object).dropReadyClients,
		(*object).dropPolicies,
		(*object).dropClients,
	} {
		if over := len(body) - MaxBytes; over > 0 {
			shrink(&o, over)
			body = o.marshal()
		}
	}
	return body
}

func (o *object) marshal() []byte {
	// Plain structs of strings and numbers: there is nothing to refuse.
	body, _ := json.Marshal(o)
	return body
}

// deliveries are those that the schema knows.
var deliveries = []string{"Mount", "Poll", "Watch", "Static"}

// bounded copies the clients, worst first, with every list and text in bounds.
// What has no name is left out, and a delivery that a source of somebody's own
// made up is Poll: either would have the whole report refused.
func bounded(clients []Client) []Client {
	out := slices.DeleteFunc(slices.Clone(clients), func(c Client) bool { return c.Name == "" })
	slices.SortFunc(out, func(a, b Client) int {
		return cmp.Or(cmp.Compare(stateRank(a.State), stateRank(b.State)), cmp.Compare(a.Name, b.Name))
	})
	out = head(out, MaxClients)
	for i := range out {
		c := &out[i]
		c.Name, c.Reason, c.Message = clip(c.Name, maxNameLength), clip(c.Reason, maxWordLength), clip(c.Message, MaxMessageLength)
		c.Revision = clip(c.Revision, maxRevisionLength)
		if !slices.Contains(deliveries, c.Delivery) {
			c.Delivery = "Poll"
		}
		c.Policies = boundedPolicies(c.Policies)
		c.Adapters = boundedAdapters(c.Adapters)
		c.Upstreams = boundedUpstreams(c.Upstreams)
	}
	return out
}

func boundedPolicies(list []Policy) []Policy {
	out := slices.DeleteFunc(slices.Clone(list), func(p Policy) bool { return p.Name == "" })
	slices.SortFunc(out, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(policyRank(a.State), policyRank(b.State)), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	out = head(out, MaxPolicies)
	for i := range out {
		p := &out[i]
		p.Namespace, p.Name, p.UID = clip(p.Namespace, maxLabelLength), clip(p.Name, maxNameLength), clip(p.UID, maxWordLength)
		p.Reason, p.Message, p.Revision = clip(p.Reason, maxWordLength), clip(p.Message, MaxMessageLength), clip(p.Revision, maxRevisionLength)
	}
	return out
}

func boundedAdapters(list []Adapter) []Adapter {
	out := slices.DeleteFunc(slices.Clone(list), func(a Adapter) bool { return a.Name == "" })
	slices.SortFunc(out, func(a, b Adapter) int { return cmp.Compare(a.Name, b.Name) })
	out = head(out, MaxAdapters)
	for i := range out {
		a := &out[i]
		a.Name, a.Capabilities, a.Emits = clip(a.Name, maxLabelLength), maps.Clone(a.Capabilities), words(a.Emits)
	}
	return out
}

func boundedUpstreams(list []Upstream) []Upstream {
	out := slices.DeleteFunc(slices.Clone(list), func(u Upstream) bool { return u.Name == "" || u.Adapter == "" })
	slices.SortFunc(out, func(a, b Upstream) int {
		return cmp.Or(cmp.Compare(b.gaps(), a.gaps()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Adapter, b.Adapter))
	})
	out = head(out, MaxUpstreams)
	for i := range out {
		u := &out[i]
		u.Name, u.Adapter, u.DeadKinds = clip(u.Name, maxLabelLength), clip(u.Adapter, maxLabelLength), words(u.DeadKinds)
		u.Unsupported = slices.Clone(head(u.Unsupported, maxItems))
		for j := range u.Unsupported {
			g := &u.Unsupported[j]
			g.Field, g.Capability = clip(g.Field, maxFieldLength), clip(g.Capability, maxWordLength)
		}
	}
	return out
}

// words returns the items as a set of short words, in their order.
func words(list []string) []string {
	var out []string
	for _, w := range list {
		if w = clip(w, maxWordLength); w != "" && !slices.Contains(out, w) && len(out) < maxItems {
			out = append(out, w)
		}
	}
	return out
}

func (u *Upstream) gaps() int { return len(u.Unsupported) + len(u.DeadKinds) }

func stateRank(s State) int {
	return slices.Index([]State{StateFallback, StateStale, StateReady}, s)
}

func policyRank(s PolicyState) int {
	return slices.Index([]PolicyState{PolicyRejected, PolicyStale, PolicyApplied}, s)
}

func head[E any](list []E, n int) []E { return list[:min(len(list), n)] }

// clip makes a text valid UTF-8 on one line of at most n bytes.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

func (o *object) clipMessages(n int) {
	for i := range o.Clients {
		c := &o.Clients[i]
		c.Message = clip(c.Message, n)
		for j := range c.Policies {
			c.Policies[j].Message = clip(c.Policies[j].Message, n)
		}
	}
}

// dropImpliedRevisions leaves out revisions that are the client's own.
func (o *object) dropImpliedRevisions(int) {
	for i := range o.Clients {
		c := &o.Clients[i]
		for j := range c.Policies {
			if c.Policies[j].Revision == c.Revision {
				c.Policies[j].Revision = ""
			}
		}
	}
}

func (o *object) dropEmits(int) {
	for i := range o.Clients {
		for j := range o.Clients[i].Adapters {
			o.Clients[i].Adapters[j].Emits = nil
		}
	}
}

func (o *object) dropWorkingCapabilities(int) {
	for i := range o.Clients {
		for j := range o.Clients[i].Adapters {
			maps.DeleteFunc(o.Clients[i].Adapters[j].Capabilities, func(_, level string) bool {
				return level == "Native" || level == "Emulated"
			})
		}
	}
}

func (o *object) dropUpstreams(over int) {
	for i := len(o.Clients) - 1; i >= 0; i-- {
		o.Clients[i].Upstreams = dropTail(o.Clients[i].Upstreams, &over, anyItem)
	}
}

func (o *object) dropAppliedPolicies(over int) {
	for i := len(o.Clients) - 1; i >= 0; i-- {
		o.Clients[i].Policies = dropTail(o.Clients[i].Policies, &over, func(p *Policy) bool { return p.State == PolicyApplied })
	}
}

func (o *object) dropReadyClients(over int) {
	o.Clients = dropTail(o.Clients, &over, func(c *Client) bool { return c.State == StateReady })
}

func (o *object) dropPolicies(over int) {
	for i := len(o.Clients) - 1; i >= 0; i-- {
		o.Clients[i].Policies = dropTail(o.Clients[i].Policies, &over, anyItem)
	}
}

func (o *object) dropClients(over int) {
	o.Clients = dropTail(o.Clients, &over, anyItem)
}

func anyItem[E any](*E) bool { return true }

// dropTail takes items that may go off the end until over bytes are saved.
func dropTail[E any](list []E, over *int, mayGo func(*E) bool) []E {
	for n := len(list); n > 0 && *over > 0 && mayGo(&list[n-1]); n = len(list) {
		last, _ := json.Marshal(list[n-1])
		*over -= len(last) + 1 // and the comma
		list = list[:n-1]
	}
	return list
}
