package engine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// UnmatchedRoute is a route of the policy that no call took, though its upstream
// was called: its match may name a path, service or method that does not exist.
type UnmatchedRoute struct {
	Upstream string         `json:"upstream"`
	Route    string         `json:"route"`
	Match    document.Match `json:"match"`
}

// Unmatched lists the routes that matched no call since they came into force, of
// the upstreams that had calls since then, by name. What a
// route has matched it keeps over a swap that leaves its match alone.
func (s *Snapshot) Unmatched() []UnmatchedRoute {
	type key struct{ upstream, route, match string }
	matched, called := map[key]bool{}, map[key]bool{}
	var order []key
	matches := map[key]document.Match{}
	// Policies can differ for some of an upstream's hosts, which are then entries
	// of their own: the route is one to its author.
	for _, u := range s.upstreams {
		for _, r := range u.routes {
			k := key{u.name, r.policy.Route, r.match.Key()}
			if _, there := matches[k]; !there {
				order = append(order, k)
				matches[k] = r.match
			}
			matched[k] = matched[k] || r.taken.Load()
			called[k] = called[k] || u.called.Load()
		}
	}
	var unmatched []UnmatchedRoute
	for _, k := range order {
		if called[k] && !matched[k] {
			unmatched = append(unmatched, UnmatchedRoute{Upstream: k.upstream, Route: k.route, Match: matches[k]})
		}
	}
	slices.SortStableFunc(unmatched, func(a, b UnmatchedRoute) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Route, b.Route))
	})
	return unmatched
}

// note sets a flag; once set, it costs callers a load that they share.
func note(flag *atomic.Bool) {
	if !flag.Load() {
		flag.Store(true)
	}
}

// inherit takes over what the routes of the upstream's predecessor have matched;
// nil is no predecessor.
func (u *upstream) inherit(before *upstream) {
	for i := range u.routes {
		r := &u.routes[i]
		r.taken = before.takenBy(r)
		if r.taken == nil {
			r.taken = new(atomic.Bool)
		}
	}
}

func (u *upstream) takenBy(r *route) *atomic.Bool {
	if u == nil {
		return nil
	}
	for i := range u.routes {
		old := &u.routes[i]
		if old.policy.Route == r.policy.Route && old.match.Key() == r.match.Key() {
			return old.taken
		}
	}
	return nil
}
