package document

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Render writes the document as it is stored: JSON with sorted names, indented
// by two spaces, with its revision. The same content gives the same bytes
// whatever the order of its lists was. It validates first and never writes
// what [Parse] would refuse; d itself stays as it is.
func Render(d *Document) ([]byte, error) {
	sorted := d.normalized()
	sorted.Schema, sorted.Revision = Schema, ""
	if err := sorted.Validate(); err != nil {
		return nil, err
	}
	tree, err := toTree(sorted)
	if err != nil {
		return nil, err
	}
	tree["revision"] = treeRevision(tree)
	// A tree has nothing that encoding/json could refuse.
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	if buf.Len() > MaxBytes {
		return nil, fieldErrorf("", "the document has %d bytes, more than %d", buf.Len(), MaxBytes).as(ErrTooLarge)
	}
	return buf.Bytes(), nil
}

// Revision returns the digest of the document's content: "sha256:" and the
// SHA-256, in hex, of its canonical form, which is the JSON without the field
// "revision", with names sorted by their bytes, no white space and the escapes
// of RFC 8785. Two documents with the same revision mean the same.
//
// It is the revision that [Render] writes. [Parse] takes the digest of the text
// it read, unknown fields included, so that a text in another order than
// Render's has another one.
func Revision(d *Document) string {
	sorted := d.normalized()
	sorted.Schema = Schema
	tree, err := toTree(sorted)
	if err != nil {
		return ""
	}
	return treeRevision(tree)
}

func toTree(d *Document) (map[string]any, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the document: %w", err)
	}
	root, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("read back the document: %w", err)
	}
	return root.(map[string]any), nil
}

// treeRevision digests everything but the revision itself, known or unknown,
// so that a reader can check what a newer operator wrote.
func treeRevision(root any) string {
	if fields, ok := root.(map[string]any); ok {
		content := make(map[string]any, len(fields))
		for name, v := range fields {
			if name != "revision" {
				content[name] = v
			}
		}
		root = content
	}
	digest := sha256.Sum256(appendCanonical(nil, root))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// appendCanonical writes a tree of parseTree in canonical form.
func appendCanonical(out []byte, tree any) []byte {
	switch v := tree.(type) {
	case map[string]any:
		out = append(out, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendCanonicalString(out, name), ':')
			out = appendCanonical(out, v[name])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCanonical(out, item)
		}
		return append(out, ']')
	case string:
		return appendCanonicalString(out, v)
	case json.Number:
		return append(out, v...)
	case bool:
		return strconv.AppendBool(out, v)
	default:
		return append(out, "null"...)
	}
}

// appendCanonicalString escapes what JSON makes it escape and nothing else (RFC
// 8785, section 3.2.2.2). encoding/json would escape U+2028 and U+2029 too.
func appendCanonicalString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= ' ':
			out = append(out, c)
		default:
			if short := strings.IndexByte("\b\t\n\f\r", c); short >= 0 {
				out = append(out, '\\', "btnfr"[short])
			} else {
				out = fmt.Appendf(out, "\\u%04x", c)
			}
		}
	}
	return append(out, '"')
}

// normalized returns a copy with every list in its canonical order, hosts and
// methods in canonical spelling, and duplicates of sets taken out.
func (d *Document) normalized() *Document {
	out := *d
	out.unknown = nil
	out.Policies = append([]PolicyRef(nil), d.Policies...)
	slices.SortFunc(out.Policies, func(a, b PolicyRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Generation, b.Generation))
	})
	out.Policies = slices.Compact(out.Policies)
	out.Upstreams = nil
	for _, u := range d.Upstreams {
		u.Hosts = normalizedHosts(u.Hosts)
		u.Rules = u.Rules.normalized()
		u.Provenance = orNil(u.Provenance)
		var routes []Route
		for _, r := range u.Routes {
			r.Rules = r.Rules.normalized()
			// An empty list of methods means any, as an absent one does.
			r.Match.Methods = sortedSet(append([]string(nil), r.Match.Methods...))
			r.Provenance = orNil(r.Provenance)
			routes = append(routes, r)
		}
		slices.SortFunc(routes, func(a, b Route) int {
			return cmp.Or(a.Match.Compare(&b.Match), cmp.Compare(a.Name, b.Name))
		})
		u.Routes = routes
		out.Upstreams = append(out.Upstreams, u)
	}
	slices.SortFunc(out.Upstreams, func(a, b Upstream) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.Hosts, b.Hosts))
	})
	return &out
}

func (r Rules) normalized() Rules {
	if r.Retry != nil {
		retry := *r.Retry
		retry.RetryableKinds = sortedSet(retry.RetryableKinds)
		retry.RetryableStatusCodes = sortedSet(retry.RetryableStatusCodes)
		retry.RetryableGRPCCodes = sortedSet(retry.RetryableGRPCCodes)
		retry.Methods = sortedSet(retry.Methods)
		retry.IdempotencyHeaders = sortedSet(retry.IdempotencyHeaders)
		r.Retry = &retry
	}
	if r.CircuitBreaker != nil {
		breaker := *r.CircuitBreaker
		breaker.TripKinds = sortedSet(breaker.TripKinds)
		r.CircuitBreaker = &breaker
	}
	return r
}

func normalizedHosts(hosts []string) []string {
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		if p, err := ParseHostPattern(h); err == nil {
			h = p.String()
		}
		out = append(out, h)
	}
	return sortedSet(out)
}

func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// sortedSet sorts and takes duplicates out; nil stays nil, empty stays empty.
func sortedSet[E cmp.Ordered](list []E) []E {
	if list == nil {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
