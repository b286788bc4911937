package document

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	tree, size, err := toTree(sorted)
	if err != nil {
		return nil, err
	}
	tree = withRevision(tree, size)
	data := append(appendIndented(make([]byte, 0, 2*size), &tree, 0), '\n')
	if len(data) > MaxBytes {
		return nil, fieldErrorf("", "the document has %d bytes, more than %d", len(data), MaxBytes).as(ErrTooLarge)
	}
	return data, nil
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
	tree, size, err := toTree(sorted)
	if err != nil {
		return ""
	}
	return treeRevision(&tree, size)
}

// toTree also returns the length of the document without white space.
func toTree(d *Document) (node, int, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return node{}, 0, fmt.Errorf("encode the document: %w", err)
	}
	root, err := parseTree(data)
	if err != nil {
		return node{}, 0, fmt.Errorf("read back the document: %w", err)
	}
	return root, len(data), nil
}

// fieldRevision is the one field that a revision does not cover.
const fieldRevision = "revision"

// treeRevision digests everything but the revision itself, known or unknown,
// so that a reader can check what a newer operator wrote. size is about how long
// the text is.
func treeRevision(root *node, size int) string {
	content := *root
	if i, ok := find(root.members, fieldRevision); ok && root.kind == kindObject {
		content.members = slices.Delete(slices.Clone(root.members), i, i+1)
	}
	digest := sha256.Sum256(appendCanonical(make([]byte, 0, size), &content))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// withRevision adds the revision to the content of a document.
func withRevision(content node, size int) node {
	revision := member{fieldRevision, node{kind: kindText, text: treeRevision(&content, size)}}
	i, _ := find(content.members, fieldRevision)
	content.members = slices.Insert(slices.Clone(content.members), i, revision)
	return content
}

// appendCanonical writes a tree in canonical form.
func appendCanonical(out []byte, tree *node) []byte {
	switch tree.kind {
	case kindObject:
		out = append(out, '{')
		for i := range tree.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendCanonicalString(out, tree.members[i].name), ':')
			out = appendCanonical(out, &tree.members[i].node)
		}
		return append(out, '}')
	case kindList:
		out = append(out, '[')
		for i := range tree.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCanonical(out, &tree.members[i].node)
		}
		return append(out, ']')
	case kindText:
		return appendCanonicalString(out, tree.text)
	default:
		return appendScalar(out, tree)
	}
}

// appendScalar writes what has one form only.
func appendScalar(out []byte, tree *node) []byte {
	switch tree.kind {
	case kindNumber:
		return append(out, tree.text...)
	case kindTrue, kindFalse:
		return strconv.AppendBool(out, tree.kind == kindTrue)
	default:
		return append(out, "null"...)
	}
}

// appendIndented writes a tree as encoding/json does with an indent of two
// spaces and without escapes for HTML.
func appendIndented(out []byte, tree *node, depth int) []byte {
	if tree.kind == kindText {
		return appendString(out, tree.text)
	}
	if tree.kind != kindObject && tree.kind != kindList {
		return appendScalar(out, tree)
	}
	brackets := "[]"
	if tree.kind == kindObject {
		brackets = "{}"
	}
	if len(tree.members) == 0 {
		return append(out, brackets...)
	}
	out = append(out, brackets[0])
	for i := range tree.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendLine(out, depth+1)
		if tree.kind == kindObject {
			out = append(appendString(out, tree.members[i].name), ": "...)
		}
		out = appendIndented(out, &tree.members[i].node, depth+1)
	}
	return append(appendLine(out, depth), brackets[1])
}

// appendLine begins a line.
func appendLine(out []byte, depth int) []byte {
	out = append(out, '\n')
	for range depth {
		out = append(out, "  "...)
	}
	return out
}

// appendString writes a string as encoding/json does without escapes for HTML.
func appendString(out []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			continue
		}
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if enc.Encode(s) != nil {
			break // a string is never refused
		}
		return append(out, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
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
