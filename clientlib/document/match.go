package document

import (
	"cmp"
	"slices"
	"strings"
)

// Call is what a Match looks at.
type Call struct {
	// Method is the HTTP method; empty means GET.
	Method string
	// Path is the URL path as sent (escaped), without the query. For gRPC it
	// is "/service/method".
	Path string
	// GRPC says that the call is a gRPC one.
	GRPC bool
}

// Matches reports whether the match selects the call. Methods and Path select
// HTTP calls only: a gRPC call is selected by GRPC or by the empty match, so
// that two matches that share a call always have an intersection.
func (m *Match) Matches(c Call) bool {
	if m.GRPC != nil {
		return c.GRPC && m.GRPC.matchesPath(c.Path)
	}
	if c.GRPC {
		return len(m.Methods) == 0 && m.Path == ""
	}
	if len(m.Methods) > 0 {
		method := c.Method
		if method == "" {
			method = "GET"
		}
		if !slices.Contains(m.Methods, method) {
			return false
		}
	}
	switch {
	case m.Path == "":
		return true
	case m.PathMatch == PathExact:
		return c.Path == m.Path
	default:
		return hasPathPrefix(c.Path, m.Path)
	}
}

// matchesAll reports whether the match selects every call, HTTP and gRPC.
func (m *Match) matchesAll() bool {
	return m.GRPC == nil && len(m.Methods) == 0 && m.Path == ""
}

func (g *GRPCMatch) matchesPath(path string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ok && (g.Service == "" || g.Service == service) && (g.Method == "" || g.Method == method)
}

// hasPathPrefix compares whole path elements, as the Gateway API does.
func hasPathPrefix(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// Covers reports whether every call that n selects is selected by m too.
func (m *Match) Covers(n *Match) bool {
	if m.GRPC != nil {
		return n.GRPC != nil &&
			(m.GRPC.Service == "" || m.GRPC.Service == n.GRPC.Service) &&
			(m.GRPC.Method == "" || m.GRPC.Method == n.GRPC.Method)
	}
	if n.GRPC != nil {
		return m.matchesAll()
	}
	if len(m.Methods) > 0 {
		if len(n.Methods) == 0 {
			return false
		}
		for _, method := range n.Methods {
			if !slices.Contains(m.Methods, method) {
				return false
			}
		}
	}
	switch {
	case m.Path == "":
		return true
	case n.Path == "":
		return false
	case m.PathMatch == PathExact:
		return n.PathMatch == PathExact && m.Path == n.Path
	default:
		return hasPathPrefix(n.Path, m.Path)
	}
}

// Intersect returns the match of the calls that both select, if there can be
// any.
func (m *Match) Intersect(n *Match) (Match, bool) {
	if m.Covers(n) {
		return *n, true
	}
	if n.Covers(m) {
		return *m, true
	}
	if m.GRPC != nil || n.GRPC != nil {
		return intersectGRPC(m.GRPC, n.GRPC)
	}
	var both Match
	switch {
	case len(m.Methods) == 0:
		both.Methods = n.Methods
	case len(n.Methods) == 0:
		both.Methods = m.Methods
	default:
		for _, method := range m.Methods {
			if slices.Contains(n.Methods, method) {
				both.Methods = append(both.Methods, method)
			}
		}
		if len(both.Methods) == 0 {
			return Match{}, false
		}
	}
	mp, np := Match{Path: m.Path, PathMatch: m.PathMatch}, Match{Path: n.Path, PathMatch: n.PathMatch}
	switch {
	case mp.Covers(&np):
		both.Path, both.PathMatch = n.Path, n.PathMatch
	case np.Covers(&mp):
		both.Path, both.PathMatch = m.Path, m.PathMatch
	default:
		return Match{}, false
	}
	return both, true
}

func intersectGRPC(m, n *GRPCMatch) (Match, bool) {
	if m == nil || n == nil {
		return Match{}, false
	}
	service, ok := intersectName(m.Service, n.Service)
	if !ok {
		return Match{}, false
	}
	method, ok := intersectName(m.Method, n.Method)
	if !ok {
		return Match{}, false
	}
	return Match{GRPC: &GRPCMatch{Service: service, Method: method}}, true
}

func intersectName(a, b string) (string, bool) {
	switch {
	case a == "" || a == b:
		return b, true
	case b == "":
		return a, true
	default:
		return "", false
	}
}

// Compare orders matches by specificity, the most specific first; where two
// matches select the same call, the first applies. The order is total:
// gRPC service and method, then service, then method alone; an exact path
// before a prefix, a longer path before a shorter one; fewer methods before
// more, any method last; the rest by text.
func (m *Match) Compare(n *Match) int {
	return cmp.Or(
		cmp.Compare(n.rank(), m.rank()),
		cmp.Compare(len(n.pathKey()), len(m.pathKey())),
		compareBool(len(m.Methods) > 0, len(n.Methods) > 0),
		cmp.Compare(len(m.Methods), len(n.Methods)),
		cmp.Compare(m.Key(), n.Key()),
	)
}

// rank is the coarse part of Compare; higher is more specific.
func (m *Match) rank() int {
	switch {
	case m.GRPC != nil && m.GRPC.Service != "" && m.GRPC.Method != "":
		return 6
	case m.GRPC != nil && m.GRPC.Service != "":
		return 5
	case m.GRPC != nil && m.GRPC.Method != "":
		return 4
	case m.GRPC != nil:
		return 3
	case m.PathMatch == PathExact && m.Path != "":
		return 2
	case m.Path != "":
		return 1
	default:
		return 0
	}
}

// pathKey is the path as compared: a trailing slash of a prefix says nothing.
func (m *Match) pathKey() string {
	if m.PathMatch == PathExact {
		return m.Path
	}
	return strings.TrimSuffix(m.Path, "/")
}

// Key returns a text that is the same for two matches exactly when they select
// the same calls.
func (m *Match) Key() string {
	if m.GRPC != nil {
		return "grpc " + m.GRPC.Service + "/" + m.GRPC.Method
	}
	kind := "any"
	switch {
	case m.Path == "":
	case m.PathMatch == PathExact:
		kind = "exact"
	default:
		kind = "prefix"
	}
	return kind + " " + m.pathKey() + " " + strings.Join(sortedSet(m.Methods), ",")
}

// Equal reports whether both select the same calls.
func (m *Match) Equal(n *Match) bool { return m.Covers(n) && n.Covers(m) }
