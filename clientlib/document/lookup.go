package document

// Lookup finds the rules for a call: the upstream whose host pattern is the most
// specific one that matches, and of its routes the most specific one that
// matches. The upstream is nil when no pattern matches, the route when the
// upstream's own rules apply.
//
// host is a name or address without port, in any letter case, with or without
// a trailing dot, an IPv6 address without brackets; port is the one that is
// dialled, the scheme's default included. Lookup takes time in proportion to
// the size of the document: it is the reference that faster indexes are tested
// against.
func (d *Document) Lookup(host string, port uint16, call Call) (*Upstream, *Route) {
	host = NormalizeHostname(host)
	var upstream *Upstream
	var best HostPattern
	for i := range d.Upstreams {
		for _, text := range d.Upstreams[i].Hosts {
			p, err := ParseHostPattern(text)
			if err != nil || !p.Matches(host, port) {
				continue
			}
			if upstream == nil || p.Compare(best) < 0 {
				upstream, best = &d.Upstreams[i], p
			}
		}
	}
	if upstream == nil {
		return nil, nil
	}
	var route *Route
	for i := range upstream.Routes {
		r := &upstream.Routes[i]
		if r.Match.Matches(call) && (route == nil || r.Match.Compare(&route.Match) < 0) {
			route = r
		}
	}
	return upstream, route
}
