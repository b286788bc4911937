package capability

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Assessment is what a set of adapters can and cannot do of a document.
type Assessment struct {
	// Upstreams has an entry for each upstream and adapter, in the order of
	// the document, then of the records.
	Upstreams []UpstreamAssessment `json:"upstreams"`
}

// UpstreamAssessment says what one adapter makes of one upstream's rules,
// routes included.
type UpstreamAssessment struct {
	Upstream string `json:"upstream"`
	Adapter  string `json:"adapter"`
	// Native, Emulated and Degraded list the capabilities that the rules need.
	Native   []Name `json:"native,omitempty"`
	Emulated []Name `json:"emulated,omitempty"`
	Degraded []Name `json:"degraded,omitempty"`
	// Dropped lists the fields that nothing enforces.
	Dropped []DroppedField `json:"dropped,omitempty"`
	// DeadKinds are retryable kinds that the rules ask for and the adapter
	// never emits, and kinds that this library does not know.
	DeadKinds []string `json:"deadKinds,omitempty"`
	// Reject says that the rules ask to refuse a document with gaps.
	Reject bool `json:"-"`
}

// DroppedField is a policy field that an adapter cannot honour.
type DroppedField struct {
	// Field is the path inside the rules, such as "timeouts.connect".
	Field      string `json:"field"`
	Capability Name   `json:"capability"`
	Reason     string `json:"reason"`
}

// Assess holds a document against the adapters that a client uses.
func Assess(doc *document.Document, records []Record) Assessment {
	var a Assessment
	for i := range doc.Upstreams {
		for j := range records {
			a.Upstreams = append(a.Upstreams, assessUpstream(&doc.Upstreams[i], &records[j]))
		}
	}
	return a
}

// Rejection returns an error that names the first gap of an upstream whose
// policy says onUnsupported: Reject, and nil when there is none.
func (a *Assessment) Rejection() error {
	for i := range a.Upstreams {
		u := &a.Upstreams[i]
		switch {
		case !u.Reject:
		case len(u.Dropped) > 0:
			d := u.Dropped[0]
			return fmt.Errorf("upstream %s: adapter %s cannot honour %s (%s), and onUnsupported is Reject", u.Upstream, u.Adapter, d.Field, d.Capability)
		case len(u.DeadKinds) > 0:
			return fmt.Errorf("upstream %s: adapter %s never emits the retryable kind %s, and onUnsupported is Reject", u.Upstream, u.Adapter, u.DeadKinds[0])
		}
	}
	return nil
}

// Need ties a field of the rules to the capability that it takes.
type Need struct {
	Field      string
	Capability Name
}

// Needs lists what an upstream's effective rules take, routes included, sorted
// and without duplicates. Limits of "0s" take nothing.
func Needs(u *document.Upstream) []Need {
	var needs []Need
	if u.Mode == document.ModeShadow {
		needs = append(needs, Need{"mode", Shadow})
	}
	needs = append(needs, ruleNeeds(&u.Rules)...)
	for i := range u.Routes {
		needs = append(needs, ruleNeeds(&u.Routes[i].Rules)...)
	}
	slices.SortFunc(needs, func(a, b Need) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(string(a.Capability), string(b.Capability)))
	})
	return slices.Compact(needs)
}

func ruleNeeds(r *document.Rules) []Need {
	var needs []Need
	need := func(asked bool, field string, names ...Name) {
		for _, name := range names {
			if asked {
				needs = append(needs, Need{field, name})
			}
		}
	}
	if t := r.Timeouts; t != nil {
		total := isSet(t.Total)
		need(total, "timeouts.total", TimeoutTotal, DeadlineHard)
		need(total && t.Scope != document.ScopeHeaders, "timeouts.scope", DeadlineCoversBody)
		need(isSet(t.Attempt), "timeouts.attempt", TimeoutAttempt)
		need(isSet(t.Connect), "timeouts.connect", TimeoutConnect)
		need(isSet(t.ResponseHeader), "timeouts.responseHeader", TimeoutResponseHeader)
		need(isSet(t.BodyIdle), "timeouts.bodyIdle", TimeoutBodyIdle)
	}
	if retry := r.Retry; retry != nil && retry.MaxAttempts != nil && *retry.MaxAttempts > 1 {
		need(true, "retry.maxAttempts", RetryOwned)
		need(retry.Budget != nil, "retry.budget", RetryBudget)
		need(retry.MaxReplayBytes != nil && *retry.MaxReplayBytes > 0, "retry.maxReplayBytes", BodyReplay)
	}
	need(r.Deadline != nil && r.Deadline.Header != "", "deadline.header", DeadlineHeader)
	need(r.CircuitBreaker != nil, "circuitBreaker", CircuitBreaker)
	return needs
}

func isSet(d *document.Duration) bool { return d != nil && *d > 0 }

func assessUpstream(u *document.Upstream, r *Record) UpstreamAssessment {
	out := UpstreamAssessment{
		Upstream: u.Name,
		Adapter:  r.Adapter,
		Reject:   u.OnUnsupported == document.UnsupportedReject,
	}
	seen := map[Name]bool{}
	for _, n := range Needs(u) {
		support := r.Support[n.Capability]
		if support.Level == Absent {
			reason := support.Note
			if reason == "" {
				reason = "not supported by " + r.Library
			}
			out.Dropped = append(out.Dropped, DroppedField{Field: n.Field, Capability: n.Capability, Reason: reason})
			continue
		}
		if seen[n.Capability] {
			continue
		}
		seen[n.Capability] = true
		switch support.Level {
		case Native:
			out.Native = append(out.Native, n.Capability)
		case Emulated:
			out.Emulated = append(out.Emulated, n.Capability)
		default:
			out.Degraded = append(out.Degraded, n.Capability)
		}
	}
	out.DeadKinds = deadKinds(u, r)
	return out
}

// deadKinds looks at the kinds that the rules name; the defaults of the library
// are nobody's request and never dead.
func deadKinds(u *document.Upstream, r *Record) []string {
	var dead []string
	look := func(rules *document.Rules) {
		if rules.Retry == nil {
			return
		}
		for _, name := range rules.Retry.RetryableKinds {
			kind, known := failure.ParseKind(name)
			if !known || failure.NeverRetryable.Has(kind) || !r.Reaches(kind) {
				dead = append(dead, name)
			}
		}
	}
	look(&u.Rules)
	for i := range u.Routes {
		look(&u.Routes[i].Rules)
	}
	slices.Sort(dead)
	return slices.Compact(dead)
}
