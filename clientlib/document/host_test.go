package document

import (
	"slices"
	"strings"
	"testing"
)

func TestParseHostPattern(t *testing.T) {
	for text, want := range map[string]HostPattern{
		"orders":                    {Name: "orders"},
		"orders.example.com":        {Name: "orders.example.com"},
		"Orders.Example.COM":        {Name: "orders.example.com"},
		"orders.example.com.":       {Name: "orders.example.com"},
		"orders.example.com:8443":   {Name: "orders.example.com", Port: 8443},
		"orders.example.com.:8443":  {Name: "orders.example.com", Port: 8443},
		"*.example.com":             {Name: "example.com", Wildcard: true},
		"*.Example.com:443":         {Name: "example.com", Wildcard: true, Port: 443},
		"*.com":                     {Name: "com", Wildcard: true},
		"a_b.example.com":           {Name: "a_b.example.com"},
		"1.2.3.4":                   {Name: "1.2.3.4"},
		"1.2.3.4:80":                {Name: "1.2.3.4", Port: 80},
		"[::1]":                     {Name: "::1"},
		"[::1]:65535":               {Name: "::1", Port: 65535},
		"[2001:DB8::0:1]":           {Name: "2001:db8::1"},
		"[0:0:0:0:0:0:0:1]":         {Name: "::1"},
		"xn--bcher-kva.example.com": {Name: "xn--bcher-kva.example.com"},
		strings.Repeat("a", 63):     {Name: strings.Repeat("a", 63)},
	} {
		got, err := ParseHostPattern(text)
		if err != nil || got != want {
			t.Errorf("ParseHostPattern(%q) is %+v, %v, want %+v", text, got, err, want)
		}
		again, err := ParseHostPattern(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written %q and read as %+v, %v", text, got, again, err)
		}
	}
}

func TestHostPatternRefusals(t *testing.T) {
	for _, text := range []string{
		"", ".", "..", "*", "*.", "*:80", "**.example.com", "*.*.example.com", "a.*.example.com", "a*.example.com", "*a.example.com", "example.*",
		"http://example.com", "example.com/path", "example.com?q", "user@example.com", "exa mple.com", " example.com", "example.com ", "example.com\n",
		"a..b", ".a", "a..", "-a.com", "a-.com", "a.-b", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa",
		":80", "a:", "a:0", "a:65536", "a:-1", "a:+1", "a:1e3", "a:http", "a:80:80", "a:080",
		"::1", "::1:80", "[", "[]", "[::1", "[::1]80", "[::1]:", "[::1]x", "[::1]:0", "[orders]", "[1.2.3.4]", "[*.example.com]", "*.1.2.3.4", "*.[::1]", "[fe80::1%eth0]", "[::ffff:1.2.3.4]",
		"bücher.example.com", "\u212Aube.local", "a\u3002b", "\xff", "a\x00b",
	} {
		if got, err := ParseHostPattern(text); err == nil {
			t.Errorf("ParseHostPattern(%q) is %+v, it must be refused", text, got)
		}
	}
}

func TestNormalizeHostname(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "orders": "orders", "ORDERS.": "orders", "a.b..": "a.b.", "2001:DB8:0::1": "2001:db8::1", "::": "::", "not:an:address": "not:an:address",
		"\u212Aube": "\u212Aube", "Ü": "Ü",
	} {
		if got := NormalizeHostname(name); got != want {
			t.Errorf("NormalizeHostname(%q) is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"orders.shop.svc.cluster.local", "orders.shop.svc.cluster.local.", "1.2.3.4"} {
		if n := testing.AllocsPerRun(100, func() { NormalizeHostname(name) }); n != 0 {
			t.Errorf("NormalizeHostname(%q) allocates %v times", name, n)
		}
	}
}

type hostPort struct {
	name string
	port uint16
}

// hostUniverse are patterns that nest, overlap and miss each other, with hosts
// that tell them apart.
func hostUniverse() (patterns []HostPattern, hosts []hostPort) {
	names := []string{"com", "example.com", "a.example.com", "b.a.example.com", "notexample.com", "example.org", "1.2.3.4"}
	for _, port := range []uint16{0, 80, 443} {
		for _, name := range names {
			patterns = append(patterns, HostPattern{Name: name, Port: port})
			if name != "1.2.3.4" {
				patterns = append(patterns, HostPattern{Name: name, Port: port, Wildcard: true})
			}
		}
	}
	for _, port := range []uint16{80, 443, 8080} {
		for _, name := range append(names, "org", "") {
			hosts = append(hosts, hostPort{name, port}, hostPort{"x." + name, port})
		}
	}
	return patterns, hosts
}

func TestHostPatternMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, host string
		port          uint16
		want          bool
	}{
		{"orders", "orders", 80, true},
		{"orders", "orders", 1, true},
		{"orders:80", "orders", 80, true},
		{"orders:80", "orders", 443, false},
		{"orders", "orders.shop", 80, false},
		{"*.example.com", "a.example.com", 80, true},
		{"*.example.com", "b.a.example.com", 80, true},
		{"*.example.com", "example.com", 80, false},
		{"*.example.com", ".example.com", 80, false},
		{"*.example.com", "notexample.com", 80, false},
		{"*.example.com:443", "a.example.com", 443, true},
		{"*.example.com:443", "a.example.com", 80, false},
		{"[::1]:80", "::1", 80, true},
	} {
		p, err := ParseHostPattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(tc.host, tc.port); got != tc.want {
			t.Errorf("%s matches %s:%d is %v, want %v", tc.pattern, tc.host, tc.port, got, tc.want)
		}
	}
}

func TestHostPatternsAreASetAlgebra(t *testing.T) {
	patterns, hosts := hostUniverse()
	for _, p := range patterns {
		for _, q := range patterns {
			both, some := p.Intersect(q)
			subset := true
			for _, h := range hosts {
				inP, inQ := p.Matches(h.name, h.port), q.Matches(h.name, h.port)
				subset = subset && (inP || !inQ)
				if got := some && both.Matches(h.name, h.port); got != (inP && inQ) {
					t.Fatalf("%s and %s intersect in %s (%v), which is wrong about %v", p, q, both, some, h)
				}
			}
			if p.Covers(q) != subset {
				t.Errorf("%s covers %s is %v, their hosts say %v", p, q, p.Covers(q), subset)
			}
			// The narrower one must win where both match.
			if p != q && p.Covers(q) && p.Compare(q) < 0 {
				t.Errorf("%s comes before %s, which it covers", p, q)
			}
			if p.Compare(q) != -q.Compare(p) || (p.Compare(q) == 0) != (p == q) {
				t.Errorf("Compare of %s and %s is %d and %d", p, q, p.Compare(q), q.Compare(p))
			}
		}
	}
	wantOrder(t, patterns, HostPattern.Compare)
}

// wantOrder checks that a comparison is transitive.
func wantOrder[E any](t *testing.T, items []E, compare func(a, b E) int) {
	t.Helper()
	sorted := slices.Clone(items)
	slices.SortFunc(sorted, compare)
	for i := range sorted {
		for j := i + 1; j < len(sorted); j++ {
			if compare(sorted[i], sorted[j]) > 0 {
				t.Fatalf("the order is not transitive: %v and %v", sorted[i], sorted[j])
			}
		}
	}
}
