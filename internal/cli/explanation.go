package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// fromDefault marks a value that no policy sets.
const fromDefault = "default"

// explanation is the answer of explain.
type explanation struct {
	Call     string            `json:"call"`
	Client   string            `json:"client"`
	Document explainedDocument `json:"document"`
	// Upstream is empty when nothing matches.
	Upstream string `json:"upstream,omitempty"`
	// Host is the pattern that matched.
	Host string `json:"host,omitempty"`
	// Route is empty when the upstream's own rules hold.
	Route string `json:"route,omitempty"`
	Match string `json:"match,omitempty"`
	// Fields are all of them, in the order in which people read them.
	Fields []explainedField `json:"fields,omitempty"`
}

type explainedDocument struct {
	Source    string `json:"source"`
	Namespace string `json:"namespace,omitempty"`
	Client    string `json:"client,omitempty"`
	Revision  string `json:"revision"`
}

// explainedField is one value with its origin: a policy with its generation, or
// "default".
type explainedField struct {
	Field string `json:"field"`
	Value string `json:"value"`
	From  string `json:"from"`

	// idle says that the field has no effect, since what it belongs to is off.
	idle bool
}

func newExplanation(doc *document.Document, source string, in *explainFlags, t *target) *explanation {
	e := &explanation{
		Call:     fmt.Sprintf("%s %s", t.call.Method, in.url),
		Client:   in.client,
		Document: explainedDocument{source, doc.Namespace, doc.Client, doc.Revision},
	}
	if t.call.GRPC {
		e.Call = "gRPC " + in.url
	}
	u, r := doc.Lookup(t.host, t.port, t.call)
	if u == nil {
		return e
	}
	e.Upstream, e.Host = u.Name, matchedHost(u, t)
	rules, provenance := &u.Rules, u.Provenance
	if r != nil {
		e.Route, e.Match = r.Name, describeMatch(&r.Match)
		rules, provenance = &r.Rules, r.Provenance
	}
	e.Fields = append(e.Fields,
		explainedField{Field: "mode", Value: cmp.Or(string(u.Mode), string(document.ModeEnforce)), From: origin(u.Provenance, "mode", u.Mode != "")},
		explainedField{Field: "onUnsupported", Value: cmp.Or(string(u.OnUnsupported), string(document.UnsupportedReport)), From: origin(u.Provenance, "onUnsupported", u.OnUnsupported != "")},
	)
	e.addFields(rules, provenance)
	return e
}

// addFields lists every field of the rules.
func (e *explanation) addFields(rules *document.Rules, provenance map[string]string) {
	once := rules.Retry == nil || rules.Retry.MaxAttempts == nil || *rules.Retry.MaxAttempts <= 1
	off := map[string]bool{}
	for i := range fields.All {
		f := &fields.All[i]
		value := f.Get(rules)
		out := explainedField{
			Field: f.Path,
			Value: cmp.Or(fields.Format(value), f.Default),
			From:  origin(provenance, f.Path, value != nil),
		}
		block, _, _ := strings.Cut(f.Path, ".")
		switch {
		case f.Block && value == nil:
			off[f.Path] = true
		case f.Block:
			// Its fields say what there is to say.
			out.idle = !isEmpty(f.Path, provenance)
		case off[block] || off[f.Path[:max(strings.LastIndexByte(f.Path, '.'), 0)]]:
			out.idle = true
		}
		out.idle = out.idle || once && block == "retry" && fields.ID(i) != fields.RetryMaxAttempts
		e.Fields = append(e.Fields, out)
	}
}

// isEmpty reports whether a block is there without a field.
func isEmpty(block string, provenance map[string]string) bool {
	_, own := provenance[block]
	return own
}

// origin is the policy that set a field; a value without provenance, as in a
// document that was written by hand, is from the document itself.
func origin(provenance map[string]string, field string, set bool) string {
	switch {
	case provenance[field] != "":
		return provenance[field]
	case set:
		return "document"
	default:
		return fromDefault
	}
}

// matchedHost is the pattern of the upstream that the host matched.
func matchedHost(u *document.Upstream, t *target) string {
	var best *document.HostPattern
	for _, text := range u.Hosts {
		p, err := document.ParseHostPattern(text)
		if err == nil && p.Matches(document.NormalizeHostname(t.host), t.port) && (best == nil || p.Compare(*best) < 0) {
			best = &p
		}
	}
	if best == nil {
		return ""
	}
	return best.String()
}

// describeMatch writes a match in a few words.
func describeMatch(m *document.Match) string {
	if m.GRPC != nil {
		return fmt.Sprintf("gRPC %s/%s", orStar(m.GRPC.Service), orStar(m.GRPC.Method))
	}
	methods := "any method"
	if len(m.Methods) > 0 {
		methods = strings.Join(m.Methods, ",")
	}
	switch {
	case m.Path == "":
		return methods
	case m.PathMatch == document.PathExact:
		return methods + " " + m.Path
	default:
		return methods + " " + strings.TrimSuffix(m.Path, "/") + "/*"
	}
}
