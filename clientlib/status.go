package clientlib

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// State says what a client lives on.
type State string

// The states.
const (
	// StateReady: the newest document of the source is in force.
	StateReady State = "Ready"
	// StateStale: an older document is in force, since the source is gone, its
	// newest document cannot be used, or the policy refuses a client that
	// cannot honour it.
	StateStale State = "Stale"
	// StateFallback: there never was a document that could be applied. The
	// fallback document is in force, or nothing at all.
	StateFallback State = "Fallback"
)

// ReasonUnsupported is the reason of a client that keeps its last good document
// because the newest one asks for what an adapter cannot do and says
// onUnsupported: Reject. The other reasons are those of package source.
const ReasonUnsupported source.Reason = "Unsupported"

// Status is what a client lives on, at one moment.
type Status struct {
	// Client is the name.
	Client string `json:"client"`
	State  State  `json:"state"`
	// Since is when State or Reason became what they are.
	Since time.Time `json:"since"`
	// Reason in CamelCase and Message in words say why State is not Ready, or
	// warn; both are empty when all is well.
	Reason  source.Reason `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	// Revision of the document in force; empty for none.
	Revision string `json:"revision,omitempty"`
	// AppliedAt is when that document came into force; zero for none and for the
	// fallback.
	AppliedAt time.Time `json:"appliedAt,omitzero"`
	// Tombstone says that there is no policy, on purpose.
	Tombstone bool `json:"tombstone,omitempty"`
	// CheckedAt is when the source last made sure that nothing newer is there;
	// zero where it never did, or cannot, as with a static document.
	CheckedAt time.Time       `json:"checkedAt,omitzero"`
	Delivery  source.Delivery `json:"delivery,omitempty"`
	// Origin is where the document came from, such as a path.
	Origin string `json:"origin,omitempty"`
	// Policies that the document in force was made from.
	Policies []document.PolicyRef `json:"policies,omitempty"`
	// Rejected is the newest document when it was refused.
	Rejected *Rejection `json:"rejected,omitempty"`
	// UnknownFields of the document in force, which this version ignores.
	UnknownFields []string `json:"unknownFields,omitempty"`
	// UnmatchedRoutes are routes of the document in force that no call took, though
	// their upstream was called: they may name what does not exist.
	UnmatchedRoutes []engine.UnmatchedRoute `json:"unmatchedRoutes,omitempty"`
	// Warnings about the program: what it does that works against its policy, and
	// why its cache cannot be used.
	Warnings []string `json:"warnings,omitempty"`
	// Report says what the adapters in use make of the document in force.
	Report capability.Assessment `json:"report"`
}

// Rejection is a document that was valid and yet not applied.
type Rejection struct {
	Revision string               `json:"revision"`
	Reason   source.Reason        `json:"reason"`
	Message  string               `json:"message"`
	Policies []document.PolicyRef `json:"policies,omitempty"`
	// Report says what the adapters in use would make of it: every gap, where
	// Message names the first one.
	Report capability.Assessment `json:"report"`
}

// PolicyObserver is an observer that wants to know about changes of the policy
// too.
type PolicyObserver interface {
	// PolicyChanged is called after each change, from one goroutine at a time.
	PolicyChanged(PolicyChange)
}

// PolicyChange is a change of what a client lives on.
type PolicyChange struct {
	// Result is "applied" when a document came into force, "rejected" when one
	// was refused for want of a capability, "invalid" when what the source has
	// cannot be used, "recovered" when that is over, and "unchanged" for the
	// rest, such as another delivery or a warning.
	Result string
	Status Status
	// CheckedAt returns Status.CheckedAt of the moment at which it is called. It
	// may be called at any time, by any goroutine.
	CheckedAt func() time.Time
}

// Status returns what the client lives on now. The result is the caller's.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status()
}

// Handler serves the status as JSON: 200 in state Ready, 503 otherwise only
// when strict is asked for by the query "strict", so that it can stand behind a
// readiness probe or a debugging page.
func (c *Client) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := c.Status()
		body, err := json.MarshalIndent(status, "", "  ")
		if err != nil {
			http.Error(w, "encode the status: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if r.URL.Query().Has("strict") && status.State != StateReady {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(append(body, '\n'))
	})
}

// status is called with the lock.
func (c *Client) status() Status {
	s := Status{
		Client:    c.name,
		State:     c.state,
		Since:     c.since,
		Reason:    c.reason,
		Message:   c.message,
		Delivery:  c.delivery,
		CheckedAt: c.checkedAt(),
		Warnings:  slices.Clone(c.warnings),
		Report:    capability.Assessment{Upstreams: slices.Clone(c.assessment.Upstreams)},
	}
	if doc := c.inForce(); doc != nil {
		s.Revision, s.Tombstone = doc.Revision, doc.Tombstone
		s.Policies = slices.Clone(doc.Policies)
		s.UnknownFields = slices.Clone(doc.UnknownFields())
		s.UnmatchedRoutes = c.engine.Snapshot().Unmatched()
	}
	if c.applied != nil {
		s.Origin, s.AppliedAt = c.origin, c.appliedAt
	}
	if c.rejected != nil {
		rejected := *c.rejected
		s.Rejected = &rejected
	}
	return s
}

func (c *Client) checkedAt() time.Time { return c.check.Load().Last() }

// inForce returns the document that calls obey; nil for none.
func (c *Client) inForce() *document.Document {
	if c.applied != nil {
		return c.applied
	}
	return c.fallback
}

// reportOf turns a status into what the cluster is told.
func reportOf(s Status, adapters []capability.Record) report.Client {
	out := report.Client{
		Name:     s.Client,
		Delivery: string(s.Delivery),
		State:    report.State(s.State),
		Reason:   string(s.Reason),
		Message:  s.Message,
	}
	// What keeps a document from being applied is what its authors want to know.
	assessment := s.Report
	if s.Rejected != nil {
		assessment = s.Rejected.Report
	}
	out.Upstreams = report.NewUpstreams(assessment)
	for _, a := range adapters {
		out.Adapters = append(out.Adapters, report.NewAdapter(a))
	}
	if s.State == StateFallback {
		// The fallback document is the program's own, not a policy's.
		s.Policies, s.Revision = nil, ""
	}
	out.Revision = s.Revision
	rejected := map[[2]string]bool{}
	if s.Rejected != nil {
		for _, p := range s.Rejected.Policies {
			rejected[[2]string{p.Namespace, p.Name}] = true
			out.Policies = append(out.Policies, acknowledge(p, s.Rejected.Revision, report.PolicyRejected, s.Rejected.Reason, s.Rejected.Message))
		}
	}
	for _, p := range s.Policies {
		switch {
		case rejected[[2]string{p.Namespace, p.Name}]:
		case s.State == StateStale && s.Rejected == nil:
			out.Policies = append(out.Policies, acknowledge(p, s.Revision, report.PolicyStale, s.Reason, s.Message))
		default:
			out.Policies = append(out.Policies, acknowledge(p, s.Revision, report.PolicyApplied, "", ""))
		}
	}
	return out
}

func acknowledge(p document.PolicyRef, revision string, state report.PolicyState, reason source.Reason, message string) report.Policy {
	return report.Policy{
		Namespace:  p.Namespace,
		Name:       p.Name,
		UID:        p.UID,
		Generation: p.Generation,
		Revision:   revision,
		State:      state,
		Reason:     string(reason),
		Message:    message,
	}
}
