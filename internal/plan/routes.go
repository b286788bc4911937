package plan

import (
	"slices"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// maxRoutes is how many routes one upstream of a document can have.
const maxRoutes = 256

// routeMatch is a match that the routes of a document need.
type routeMatch struct {
	match document.Match
	// derived says that no policy lists it: it is an intersection.
	derived bool
}

// closeMatches lists the matches of the entries' routes, closed under
// intersection when more than one entry has routes, the least specific first.
// It gives up and returns false when there are far too many.
func closeMatches(stack []*entry) ([]routeMatch, bool) {
	index := map[string]int{}
	var all []routeMatch
	withRoutes := 0
	for _, e := range stack {
		if len(e.routes) > 0 {
			withRoutes++
		}
		for i := range e.routes {
			key := e.routes[i].match.Key()
			if _, known := index[key]; !known {
				index[key] = len(all)
				all = append(all, routeMatch{match: e.routes[i].match})
			}
		}
	}
	for i := 0; withRoutes > 1 && i < len(all); i++ {
		for j := range i {
			both, ok := all[i].match.Intersect(&all[j].match)
			if !ok {
				continue
			}
			both = canonicalMatch(cloneMatch(both))
			key := both.Key()
			if _, known := index[key]; !known {
				index[key] = len(all)
				all = append(all, routeMatch{match: both, derived: true})
			}
			// Most of the derived ones stay; what is far beyond the bound is not
			// worth the time, which grows with the square.
			if len(all) > maxRoutes+maxRoutes/2 {
				return nil, false
			}
		}
	}
	slices.SortFunc(all, func(a, b routeMatch) int { return b.match.Compare(&a.match) })
	return all, true
}

// cloneMatch copies what canonicalMatch changes.
func cloneMatch(m document.Match) document.Match {
	m.Methods = slices.Clone(m.Methods)
	return m
}
