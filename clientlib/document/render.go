package document

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
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
	data := append(encodeTree(tree, "  "), '\n')
	if len(data) > MaxBytes {
		return nil, fieldErrorf("", "the document has %d bytes, more than %d", len(data), MaxBytes)
	}
	return data, nil
}

// Revision returns the digest of the document's content: "sha256:" and the
// SHA-256, in hex, of its canonical form, which is the JSON without the field
// "revision", with names sorted, no white space and no needless escapes (a
// subset of RFC 8785, whose number rules the integers of a document cannot
// break). Two documents with the same revision mean the same.
func Revision(d *Document) string {
	tree, err := toTree(d.normalized())
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
	digest := sha256.Sum256(encodeTree(root, ""))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// encodeTree writes a tree of parseTree; encoding/json sorts the names of a map.
func encodeTree(tree any, indent string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(tree); err != nil {
		// A tree holds maps, slices, strings, bools and numbers only.
		return nil
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// normalized returns a copy with every list in its canonical order, hosts and
// methods in canonical spelling, and duplicates of sets taken out.
func (d *Document) normalized() *Document {
	out := *d
	out.unknown = nil
	out.Policies = slices.Clone(d.Policies)
	slices.SortFunc(out.Policies, func(a, b PolicyRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	out.Upstreams = make([]Upstream, 0, len(d.Upstreams))
	for _, u := range d.Upstreams {
		u.Hosts = normalizedHosts(u.Hosts)
		u.Rules = u.Rules.normalized()
		routes := make([]Route, 0, len(u.Routes))
		for _, r := range u.Routes {
			r.Rules = r.Rules.normalized()
			r.Match.Methods = sortedSet(r.Match.Methods)
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

// sortedSet sorts and takes duplicates out; nil stays nil, empty stays empty.
func sortedSet[E cmp.Ordered](list []E) []E {
	if list == nil {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
