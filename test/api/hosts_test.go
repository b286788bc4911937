package api

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// hostCorpus is the contract of host patterns: the API schema and the document
// package give the same verdict for each of them.
func hostCorpus() []struct {
	text string
	want bool
} {
	label63, label64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	name253 := strings.Repeat(label63+".", 3) + strings.Repeat("a", 61)
	return []struct {
		text string
		want bool
	}{
		{"a", true}, {"orders", true}, {"orders.example.com", true}, {"Orders.Example.COM", true}, {"orders.example.com.", true},
		{"orders.example.com:8443", true}, {"orders.example.com.:8443", true}, {"a:1", true}, {"a:65535", true},
		{"orders_v2.shop", true}, {"_grpc._tcp.orders", true}, {"a_", true}, {"1", true}, {"1a", true}, {"xn--bcher-kva.example", true},
		{"*.example.com", true}, {"*.example.com:443", true}, {"*.example.com.", true}, {"*.com", true}, {"*.a.b.c.d.e", true},
		{"10.0.0.1", true}, {"10.0.0.1:80", true}, {"256.0.0.1", true}, {"1.2.3", true}, {"*.256.0.0.1", true}, {"*.1.2.3", true}, {"*.1.2.3.4.5", true},
		{"[::1]", true}, {"[::]", true}, {"[2001:db8::1]:8443", true}, {"[2001:DB8:0:0:0:0:0:1]", true}, {"[1::]", true}, {"[1:2:3:4:5:6:7::]", true},
		{"[::2:3:4:5:6:7:8]", true}, {"[1::8]:65535", true},
		{label63, true}, {label63 + ".a", true}, {name253, true}, {name253 + ".", true}, {name253 + ".:65535", true}, {"*." + name253, true}, {"*." + name253 + ".:65535", true},

		{"", false}, {".", false}, {"*", false}, {"*.", false}, {"*:80", false}, {"a..b", false}, {".a", false}, {"a..", false}, {"a.*.b", false}, {"*.*.a", false}, {"a*.b", false}, {"*a.b", false}, {"a.*", false},
		{"http://a", false}, {"a/b", false}, {"a/", false}, {"a b", false}, {" a", false}, {"a ", false}, {"a\n", false}, {"a?b", false}, {"u@a", false}, {"a,b", false}, {"a%20", false},
		{"-a", false}, {"a-", false}, {"a.-b", false}, {"a-.b", false}, {"bücher.example", false}, {"orders.\u212aom", false}, {"ｏrders", false},
		{"a:", false}, {"a:0", false}, {"a:65536", false}, {"a:080", false}, {"a:99999", false}, {"a:+80", false}, {"a:-1", false}, {"a:http", false}, {"a:80:80", false}, {":80", false}, {"a: 80", false},
		{"::1", false}, {"2001:db8::1", false}, {"[::1", false}, {"::1]", false}, {"[]", false}, {"[:]", false}, {"[:::]", false}, {"[1:2]", false}, {"[1::2::3]", false}, {"[1:2:3:4:5:6:7:8:9]", false},
		{"[1:2:3:4:5:6:7]", false}, {"[1:2:3:4::5:6:7:8]", false}, {"[12345::]", false}, {"[g::]", false}, {"[::1]x", false}, {"[::1]:", false}, {"[::1]:0", false}, {"[::1]8443", false},
		{"[fe80::1%eth0]", false}, {"[::ffff:10.0.0.1]", false}, {"[10.0.0.1]", false}, {"[orders]", false}, {"[*.a]", false}, {"*.[::1]", false},
		{"*.10.0.0.1", false}, {"*.10.0.0.1:80", false}, {"*.10.0.0.1.", false}, {"*.255.255.255.255", false},
		{label64, false}, {"a." + label64, false}, {name253 + "a", false}, {"a." + name253, false}, {"*." + name253 + "a", false}, {name253 + "a:80", false},
	}
}

func TestHostPatternsMeanTheSameToSchemaAndDocument(t *testing.T) {
	for _, test := range hostCorpus() {
		t.Run(fmt.Sprintf("%.40q", test.text), func(t *testing.T) {
			if _, err := document.ParseHostPattern(test.text); (err == nil) != test.want {
				t.Errorf("document.ParseHostPattern says %v", err)
			}
			policy := policyFrom("upstreams: [{name: a}]")
			policy.Object["spec"].(map[string]any)["upstreams"].([]any)[0].(map[string]any)["hosts"] = []any{test.text}
			_, err := tryPolicy(t.Context(), policy)
			if (err == nil) != test.want {
				t.Fatalf("the API server says %v", err)
			}
			if err == nil {
				return
			}
			for _, fault := range faults(t, err) {
				if !strings.HasPrefix(fault, "spec.upstreams[0].hosts[0]: ") {
					t.Errorf("want only faults at the host, got %s", fault)
				}
			}
		})
	}
}

// TestHostVerdictsAgreeOnRandomTexts looks for texts that the corpus does not
// think of, with the schema's own rules run in this process.
func TestHostVerdictsAgreeOnRandomTexts(t *testing.T) {
	judge := newJudge(t, "timeoutpolicies", "spec", "upstreams", "[]", "hosts", "[]")
	random := rand.New(rand.NewPCG(3, 4))
	alphabets := [][]string{
		{"a", "B", "9", "-", "_", ".", "*.", ":", "80", "65535", "65536", "0", "%", "/", "ü"},
		{"[", "]", ":", "::", "0", "f", "ffff", "12345", ":80", "%", ".", "1.2.3.4", "["},
		{"1", "255", "256", "01", ".", ".", "*.", ":80", ":"},
	}
	accepted := 0
	for range 20000 {
		parts := alphabets[random.IntN(len(alphabets))]
		var b strings.Builder
		for range random.IntN(18) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		_, err := document.ParseHostPattern(b.String())
		if fault := judge(b.String()); (fault != nil) != (err != nil) {
			t.Fatalf("%q: the schema says %v, the parser says %v", b.String(), fault, err)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d of the random texts were host patterns: they prove nothing", accepted)
	}
}
