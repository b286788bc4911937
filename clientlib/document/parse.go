package document

import (
	"bytes"
	"slices"
)

// Parse reads a document, checks its revision and validates it. It accepts the
// whole or refuses the whole: on an error the document is nil and the error is
// a *[FieldError] with path and reason. It never panics, needs memory in
// proportion to data only, and keeps nothing of data: the strings of the
// document are parts of one copy of it.
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fieldErrorf("", "the document has more than %d bytes", MaxBytes).as(ErrTooLarge)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fieldErrorf("", "the document is empty").as(ErrEmpty)
	}
	root, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	state := &readState{}
	doc := readDocument(state, &root)
	if state.err != nil {
		return nil, state.err
	}
	slices.Sort(state.unknown)
	doc.unknown = state.unknown
	revision := treeRevision(&root, len(data))
	if doc.Revision != "" && doc.Revision != revision {
		return nil, fieldErrorf("revision", "is %q but the content has %q: the document is damaged or was edited by hand (leave revision out of a file written by hand)", shorten(doc.Revision), revision).as(ErrRevision)
	}
	doc.Revision = revision
	if err := doc.Validate(); err != nil {
		return nil, err
	}
	return doc, nil
}

func readDocument(s *readState, root *node) *Document {
	o := s.object(place{}, root)
	if s.err != nil {
		return nil
	}
	schema := o.integer("schema")
	switch {
	case s.err != nil:
		return nil
	case schema == nil:
		s.err = fieldErrorf("schema", "is missing, it must be %d", Schema).as(ErrSchema)
		return nil
	case *schema != Schema:
		s.err = fieldErrorf("schema", "is %d, this version reads %d only", *schema, Schema).as(ErrSchema)
		return nil
	}
	d := &Document{Schema: Schema, Revision: o.text("revision")}
	d.Namespace, d.Client = o.text("namespace"), o.text("client")
	d.Tombstone = o.boolean("tombstone")
	d.Policies = readList(o, "policies", func(at place, raw *node) PolicyRef { return readPolicyRef(s, at, raw) })
	d.Upstreams = readList(o, "upstreams", func(at place, raw *node) Upstream { return readUpstream(s, at, raw) })
	o.done()
	return d
}

func readPolicyRef(s *readState, at place, raw *node) PolicyRef {
	o := s.object(at, raw)
	ref := PolicyRef{Namespace: o.text("namespace"), Name: o.text("name"), UID: o.text("uid")}
	if n := o.integer("generation"); n != nil {
		ref.Generation = *n
	}
	o.done()
	return ref
}

func readUpstream(s *readState, at place, raw *node) Upstream {
	o := s.object(at, raw)
	u := Upstream{
		Name:          o.text("name"),
		Hosts:         o.texts("hosts"),
		Mode:          Mode(o.text("mode")),
		OnUnsupported: OnUnsupported(o.text("onUnsupported")),
		Rules:         readRules(o),
		Provenance:    readProvenance(o),
	}
	u.Routes = readList(o, "routes", func(at place, raw *node) Route { return readRoute(s, at, raw) })
	o.done()
	return u
}

func readRoute(s *readState, at place, raw *node) Route {
	o := s.object(at, raw)
	r := Route{Name: o.text("name"), Rules: readRules(o), Provenance: readProvenance(o)}
	if m, ok := o.child("match"); ok {
		r.Match = Match{Methods: m.texts("methods"), Path: m.text("path"), PathMatch: PathMatch(m.text("pathMatch"))}
		if g, ok := m.child("grpc"); ok {
			r.Match.GRPC = &GRPCMatch{Service: g.text("service"), Method: g.text("method")}
			g.done()
		}
		m.done()
	}
	o.done()
	return r
}

func readProvenance(o *object) map[string]string {
	p, ok := o.child("provenance")
	if !ok {
		return nil
	}
	provenance := make(map[string]string, len(p.members))
	for i := range p.members {
		m := &p.members[i]
		switch m.kind {
		case kindNull, kindText:
			provenance[m.name] = m.text
		default:
			p.state.fail(p.field(m.name), "is %s, it must be a string", describe(&m.node))
		}
	}
	return provenance
}

func readRules(o *object) Rules {
	return Rules{
		Timeouts:       readTimeouts(o),
		Retry:          readRetry(o),
		Deadline:       readDeadline(o),
		CircuitBreaker: readCircuitBreaker(o),
	}
}

func readTimeouts(o *object) *Timeouts {
	t, ok := o.child("timeouts")
	if !ok {
		return nil
	}
	defer t.done()
	return &Timeouts{
		Total:          t.duration("total"),
		Attempt:        t.duration("attempt"),
		Connect:        t.duration("connect"),
		ResponseHeader: t.duration("responseHeader"),
		BodyIdle:       t.duration("bodyIdle"),
		Scope:          Scope(t.text("scope")),
	}
}

func readRetry(o *object) *Retry {
	r, ok := o.child("retry")
	if !ok {
		return nil
	}
	defer r.done()
	retry := &Retry{
		MaxAttempts:          r.smallInteger("maxAttempts"),
		RetryableKinds:       r.texts("retryableKinds"),
		RetryableStatusCodes: r.integers("retryableStatusCodes"),
		RetryableGRPCCodes:   r.texts("retryableGRPCCodes"),
		Methods:              r.texts("methods"),
		IdempotencyHeaders:   r.texts("idempotencyHeaders"),
		MaxReplayBytes:       r.integer("maxReplayBytes"),
	}
	if b, ok := r.child("backoff"); ok {
		retry.Backoff = &Backoff{
			Initial: b.duration("initial"),
			Max:     b.duration("max"),
			Factor:  b.smallInteger("factor"),
			Jitter:  Jitter(b.text("jitter")),
		}
		b.done()
	}
	if a, ok := r.child("retryAfter"); ok {
		retry.RetryAfter = &RetryAfter{Mode: RetryAfterMode(a.text("mode")), Max: a.duration("max")}
		a.done()
	}
	if b, ok := r.child("budget"); ok {
		retry.Budget = &Budget{Percent: b.smallInteger("percent"), Burst: b.smallInteger("burst")}
		b.done()
	}
	return retry
}

func readDeadline(o *object) *Deadline {
	d, ok := o.child("deadline")
	if !ok {
		return nil
	}
	defer d.done()
	return &Deadline{
		Header:  d.text("header"),
		Reserve: d.duration("reserve"),
		Inbound: Inbound(d.text("inbound")),
	}
}

func readCircuitBreaker(o *object) *CircuitBreaker {
	c, ok := o.child("circuitBreaker")
	if !ok {
		return nil
	}
	defer c.done()
	return &CircuitBreaker{
		Failures:  c.smallInteger("failures"),
		Recovery:  c.duration("recovery"),
		HalfOpen:  c.smallInteger("halfOpen"),
		TripKinds: c.texts("tripKinds"),
	}
}
