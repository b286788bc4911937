package document

import (
	"fmt"
	"testing"
)

func TestMatchSelectsCalls(t *testing.T) {
	get := func(path string) Call { return Call{Method: "GET", Path: path} }
	grpc := func(path string) Call { return Call{Method: "POST", Path: path, GRPC: true} }
	for _, tc := range []struct {
		name  string
		match Match
		call  Call
		want  bool
	}{
		{"everything", Match{}, get("/"), true},
		{"everything, gRPC", Match{}, grpc("/a.B/C"), true},
		{"method", Match{Methods: []string{"POST", "GET"}}, get("/"), true},
		{"other method", Match{Methods: []string{"POST"}}, get("/"), false},
		{"method in lower case is another one", Match{Methods: []string{"get"}}, get("/"), false},
		{"no method means GET", Match{Methods: []string{"GET"}}, Call{Path: "/"}, true},
		{"exact", Match{Path: "/a", PathMatch: PathExact}, get("/a"), true},
		{"exact with slash", Match{Path: "/a", PathMatch: PathExact}, get("/a/"), false},
		{"exact and longer", Match{Path: "/a", PathMatch: PathExact}, get("/a/b"), false},
		{"prefix itself", Match{Path: "/a"}, get("/a"), true},
		{"prefix with slash", Match{Path: "/a/"}, get("/a"), true},
		{"prefix and element", Match{Path: "/a", PathMatch: PathPrefix}, get("/a/b"), true},
		{"prefix is whole elements", Match{Path: "/a"}, get("/ab"), false},
		{"prefix with slash is whole elements", Match{Path: "/v1/refunds/"}, get("/v1/refundslist"), false},
		{"root prefix", Match{Path: "/"}, get("/anything"), true},
		{"method and path", Match{Methods: []string{"GET"}, Path: "/a"}, get("/b"), false},
		{"gRPC service", Match{GRPC: &GRPCMatch{Service: "a.B"}}, grpc("/a.B/C"), true},
		{"gRPC other service", Match{GRPC: &GRPCMatch{Service: "a.B"}}, grpc("/a.BB/C"), false},
		{"gRPC method", Match{GRPC: &GRPCMatch{Method: "C"}}, grpc("/x.Y/C"), true},
		{"gRPC both", Match{GRPC: &GRPCMatch{Service: "a.B", Method: "C"}}, grpc("/a.B/D"), false},
		{"gRPC any", Match{GRPC: &GRPCMatch{}}, grpc("/a.B/C"), true},
		{"gRPC path without a method", Match{GRPC: &GRPCMatch{}}, grpc("/a.B"), false},
		{"gRPC match of an HTTP call", Match{GRPC: &GRPCMatch{Service: "a.B"}}, get("/a.B/C"), false},
		{"path match of a gRPC call", Match{Path: "/a.B"}, grpc("/a.B/C"), false},
		{"method match of a gRPC call", Match{Methods: []string{"POST"}}, grpc("/a.B/C"), false},
	} {
		if got := tc.match.Matches(tc.call); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// matchUniverse are matches that nest, overlap and miss each other, with calls
// that tell them apart.
func matchUniverse() (matches []Match, calls []Call) {
	for _, methods := range [][]string{nil, {"GET"}, {"POST"}, {"GET", "POST"}, {"PUT", "GET"}} {
		matches = append(matches, Match{Methods: methods})
		for _, path := range []string{"/", "/a", "/a/", "/a/b", "/ab"} {
			for _, how := range []PathMatch{"", PathPrefix, PathExact} {
				matches = append(matches, Match{Methods: methods, Path: path, PathMatch: how})
			}
		}
	}
	for _, service := range []string{"", "s.S", "t.T"} {
		for _, method := range []string{"", "M", "N"} {
			matches = append(matches, Match{GRPC: &GRPCMatch{Service: service, Method: method}})
		}
	}
	for _, path := range []string{"", "*", "/", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/ab", "/ab/c", "/x", "/s.S/M"} {
		for _, method := range []string{"", "GET", "POST", "PUT", "PATCH"} {
			calls = append(calls, Call{Method: method, Path: path})
		}
	}
	for _, path := range []string{"/s.S/M", "/s.S/N", "/s.S/O", "/t.T/M", "/t.T/N", "/u.U/M", "/u.U/N", "/u.U/O", "/a/b", "broken"} {
		calls = append(calls, Call{Method: "POST", Path: path, GRPC: true})
	}
	return matches, calls
}

func describeMatch(m Match) string {
	if m.GRPC != nil {
		return fmt.Sprintf("grpc %+v", *m.GRPC)
	}
	return fmt.Sprintf("%v %q %s", m.Methods, m.Path, m.PathMatch)
}

func TestMatchesAreASetAlgebra(t *testing.T) {
	matches, calls := matchUniverse()
	for i := range matches {
		for j := range matches {
			m, n := &matches[i], &matches[j]
			both, some := m.Intersect(n)
			mutual, someMutual := n.Intersect(m)
			if some != someMutual || some && !both.Equal(&mutual) {
				t.Fatalf("%s and %s: the intersection depends on the order", describeMatch(*m), describeMatch(*n))
			}
			subset := true
			for _, c := range calls {
				inM, inN := m.Matches(c), n.Matches(c)
				subset = subset && (inM || !inN)
				if got := some && both.Matches(c); got != (inM && inN) {
					t.Fatalf("%s and %s intersect in %s (%v), which is wrong about %+v", describeMatch(*m), describeMatch(*n), describeMatch(both), some, c)
				}
			}
			if m.Covers(n) && !subset {
				t.Errorf("%s covers %s, but not its calls", describeMatch(*m), describeMatch(*n))
			}
			if subset && !m.Covers(n) {
				t.Errorf("%s does not cover %s, but it matches all of its calls", describeMatch(*m), describeMatch(*n))
			}
			if m.Covers(n) && !n.Covers(m) && m.Compare(n) <= 0 {
				t.Errorf("%s comes before %s, which is narrower", describeMatch(*m), describeMatch(*n))
			}
			if same := m.Covers(n) && n.Covers(m); (m.Key() == n.Key()) != same || m.Equal(n) != same {
				t.Errorf("%s and %s have the keys %q and %q, covering each other is %v", describeMatch(*m), describeMatch(*n), m.Key(), n.Key(), same)
			}
			if m.Compare(n) != -n.Compare(m) {
				t.Errorf("Compare of %s and %s is %d and %d", describeMatch(*m), describeMatch(*n), m.Compare(n), n.Compare(m))
			}
		}
	}
	wantOrder(t, matches, func(a, b Match) int { return a.Compare(&b) })
}
