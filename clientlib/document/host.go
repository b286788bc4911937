package document

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// HostPattern is a parsed entry of Upstream.Hosts.
//
// Forms: "orders.example.com" (that name on any port),
// "orders.example.com:8443" (that port only), "*.example.com" (every name
// below example.com, however deep, but not example.com itself), an IPv4
// address, or an IPv6 address in brackets, written in hexadecimal groups and
// without a zone. Letter case and one trailing dot of the name do not matter.
// The schema of the policies' API gives the same verdict on every string.
type HostPattern struct {
	// Name is in lower case, without wildcard and trailing dot. An IPv6
	// address has no brackets.
	Name string
	// Wildcard says that the pattern was "*." and Name.
	Wildcard bool
	// Port 1..65535, or 0 for any.
	Port uint16
}

// ParseHostPattern reads a pattern and normalises it.
func ParseHostPattern(s string) (HostPattern, error) {
	name, port, err := SplitHostPort(s)
	if err != nil {
		return HostPattern{}, err
	}
	p := HostPattern{Name: NormalizeHostname(name), Port: port}
	if err := checkSpelling(s, name, port); err != nil {
		return HostPattern{}, fmt.Errorf("host %q: %w", shorten(s), err)
	}
	if rest, ok := strings.CutPrefix(p.Name, "*."); ok {
		p.Name, p.Wildcard = rest, true
	}
	if _, err := netip.ParseAddr(p.Name); err == nil {
		if p.Wildcard {
			return HostPattern{}, fmt.Errorf("host %q: an address cannot have a wildcard", shorten(s))
		}
		return p, nil
	}
	if err := checkDNSName(p.Name); err != nil {
		return HostPattern{}, fmt.Errorf("host %q: %w", shorten(s), err)
	}
	return p, nil
}

// checkSpelling refuses what SplitHostPort lets through since URLs may have it
// and a pattern has no need of it.
func checkSpelling(s, name string, port uint16) error {
	for _, c := range []byte(name) {
		if c >= 0x80 {
			// Some letters beyond ASCII have a lower case inside it.
			return errors.New("a name is ASCII: write the xn-- form")
		}
	}
	if port != 0 && !strings.HasSuffix(s, ":"+strconv.Itoa(int(port))) {
		return errors.New("the port has a leading zero")
	}
	if strings.HasPrefix(s, "[") {
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is6() || strings.ContainsAny(name, ".%") {
			return errors.New("brackets hold an IPv6 address, in hexadecimal groups and without a zone")
		}
	}
	return nil
}

// SplitHostPort takes "name", "name:port", "[v6]" and "[v6]:port" apart. The
// port is 0 where there is none.
func SplitHostPort(s string) (name string, port uint16, err error) {
	rest := s
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", 0, fmt.Errorf("host %q: the bracket is not closed", shorten(s))
		}
		name, rest = s[1:end], s[end+1:]
		if rest == "" {
			return name, 0, nil
		}
		if rest[0] != ':' {
			return "", 0, fmt.Errorf("host %q: only a port can follow the bracket", shorten(s))
		}
		rest = rest[1:]
	} else {
		colon := strings.IndexByte(s, ':')
		if colon < 0 {
			return s, 0, nil
		}
		if strings.IndexByte(s[colon+1:], ':') >= 0 {
			return "", 0, fmt.Errorf("host %q: write an IPv6 address in brackets", shorten(s))
		}
		name, rest = s[:colon], s[colon+1:]
	}
	n, err := strconv.ParseUint(rest, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("host %q: the port is a number from 1 to 65535", shorten(s))
	}
	return name, uint16(n), nil
}

// NormalizeHostname puts a name in lower case, takes one trailing dot away, and
// spells an IPv6 address (without brackets) in the form of RFC 5952. A name
// that is not ASCII stays as it is: Unicode has letters, such as the Kelvin
// sign, whose lower case is an ASCII letter. It does not allocate when there
// is nothing to do.
func NormalizeHostname(name string) string {
	lower := false
	for _, c := range []byte(name) {
		switch {
		case c >= utf8.RuneSelf:
			return name
		case c == ':':
			if addr, err := netip.ParseAddr(name); err == nil {
				return addr.String()
			}
			return name
		case c >= 'A' && c <= 'Z':
			lower = true
		}
	}
	if lower {
		name = strings.ToLower(name)
	}
	return strings.TrimSuffix(name, ".")
}

func checkDNSName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > 253 {
		return errors.New("the name is longer than 253 characters")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return errors.New("a label is empty")
		}
		if len(label) > 63 {
			return errors.New("a label is longer than 63 characters")
		}
		if strings.ContainsRune(label, '*') {
			return errors.New(`a wildcard stands alone in the leftmost label, as in "*.example.com"`)
		}
		for _, c := range []byte(label) {
			if !isNameByte(c) {
				return errors.New("a name has letters, digits, '-', '_' and '.' only; no scheme and no path")
			}
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("a label cannot begin or end with '-'")
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// String returns the canonical spelling.
func (p HostPattern) String() string {
	name := p.Name
	if strings.IndexByte(name, ':') >= 0 {
		name = "[" + name + "]"
	}
	if p.Wildcard {
		name = "*." + name
	}
	if p.Port != 0 {
		name += ":" + strconv.Itoa(int(p.Port))
	}
	return name
}

// Matches reports whether the pattern covers a normalised name and a port.
func (p HostPattern) Matches(name string, port uint16) bool {
	if p.Port != 0 && p.Port != port {
		return false
	}
	if p.Wildcard {
		return isBelow(name, p.Name)
	}
	return name == p.Name
}

// isBelow reports whether name ends in "." and suffix.
func isBelow(name, suffix string) bool {
	cut := len(name) - len(suffix)
	return cut > 1 && name[cut-1] == '.' && name[cut:] == suffix
}

// Covers reports whether every host that q matches is matched by p too.
func (p HostPattern) Covers(q HostPattern) bool {
	if p.Port != 0 && p.Port != q.Port {
		return false
	}
	if !p.Wildcard {
		return !q.Wildcard && p.Name == q.Name
	}
	return q.Wildcard && p.Name == q.Name || isBelow(q.Name, p.Name)
}

// Intersect returns the pattern of the hosts that both match, if there are any.
func (p HostPattern) Intersect(q HostPattern) (HostPattern, bool) {
	if p.Port != 0 && q.Port != 0 && p.Port != q.Port {
		return HostPattern{}, false
	}
	port := max(p.Port, q.Port)
	anyP, anyQ := p, q
	anyP.Port, anyQ.Port = 0, 0
	switch {
	case anyP.Covers(anyQ):
		anyQ.Port = port
		return anyQ, true
	case anyQ.Covers(anyP):
		anyP.Port = port
		return anyP, true
	default:
		return HostPattern{}, false
	}
}

// Compare orders patterns by specificity, the most specific first: an exact
// name before a wildcard, a longer wildcard before a shorter one, one port
// before any port; the rest by name, so that the order is total. Where two
// patterns match the same host, the one that Compare puts first applies.
func (p HostPattern) Compare(q HostPattern) int {
	return cmp.Or(
		compareBool(q.Wildcard, p.Wildcard),
		cmp.Compare(wildcardLabels(q), wildcardLabels(p)),
		compareBool(p.Port != 0, q.Port != 0),
		cmp.Compare(p.Name, q.Name),
		cmp.Compare(p.Port, q.Port),
	)
}

func wildcardLabels(p HostPattern) int {
	if !p.Wildcard {
		return 0
	}
	return strings.Count(p.Name, ".") + 1
}

// compareBool puts the true one first.
func compareBool(p, q bool) int {
	switch {
	case p == q:
		return 0
	case p:
		return -1
	default:
		return 1
	}
}
