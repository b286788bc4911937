package document

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Run with: go test -fuzz FuzzParse ./document
//
// Parse never panics; what it refuses it refuses with a path and a reason on one
// line; what it accepts Validate accepts too, and survives a round trip.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		everything, `{}`, `{"schema":1}`, `{"schema":1,"tombstone":true}`, `{"schema":2}`, `[]`, `null`, ``, `{"schema":1,"schema":1}`, `{"schema":1} x`,
		in(`"timeouts":{"total":"0s","attempt":null}`), in(`"retry":{"maxAttempts":10,"methods":[]}`), route(`"match":{"grpc":{}}`),
		`{"schema":1,"namespace":"\ud800\u2028\u0000"}`, "{\"schema\":1,\"\xff\":1}", `{"schema":1,"x":[[[[1e400]]]]}`,
		`{"schema":1,"upstreams":[{"name":"a","hosts":["[::1]:80","*.a:1","A."],"provenance":{"":"","\u0000":"x"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data)
		if err != nil {
			var field *FieldError
			if doc != nil || !errors.As(err, &field) || field.Reason == "" {
				t.Fatalf("refused with %v, %+v", err, doc)
			}
			checkMessage(t, err)
			return
		}
		if err := doc.Validate(); err != nil {
			t.Fatalf("Parse accepted what Validate refuses: %v", err)
		}
		rendered, err := Render(doc)
		if errors.Is(err, ErrTooLarge) {
			return // indentation makes a text longer
		}
		if err != nil {
			t.Fatalf("Render refuses what Parse accepted: %v", err)
		}
		again, err := Parse(rendered)
		if err != nil {
			t.Fatalf("Parse refuses what Render wrote: %v\n%s", err, rendered)
		}
		want := doc.normalized()
		want.Revision = Revision(doc)
		if !reflect.DeepEqual(again, want) {
			t.Fatalf("the round trip gives\n%+v\nnot\n%+v", again, want)
		}
		if !bytes.Equal(rendered, mustRender(t, again)) {
			t.Fatal("rendering again gives other bytes")
		}
	})
}

func mustRender(t *testing.T, d *Document) []byte {
	t.Helper()
	data, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A duration or host that is accepted has one spelling, and that is accepted too.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"0s", "1h2m3s4ms", "99999h", "1d", "-1s", "1.5s", "00000s", "9999999h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d || d < 0 || d > MaxDuration {
			t.Fatalf("%q is %q is %s, %v", text, d, again.Std(), err)
		}
	})
}

func FuzzHostPattern(f *testing.F) {
	for _, seed := range []string{"orders", "*.Example.com.:80", "[2001:DB8::1]:443", "1.2.3.4", "[::1", "a..b", "\u212A", "*.[::1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseHostPattern(text)
		if err != nil {
			if utf8.ValidString(text) && !utf8.ValidString(err.Error()) {
				t.Fatalf("the message is not UTF-8: %q", err)
			}
			return
		}
		again, err := ParseHostPattern(p.String())
		if err != nil || again != p {
			t.Fatalf("%q is %q is %+v, %v", text, p, again, err)
		}
		if !p.Covers(p) || p.Compare(p) != 0 {
			t.Fatalf("%q does not cover itself", p)
		}
		if name := NormalizeHostname(p.Name); name != p.Name {
			t.Fatalf("the name %q is not normalised, that would be %q", p.Name, name)
		}
		if !p.Wildcard && !p.Matches(p.Name, max(p.Port, 1)) {
			t.Fatalf("%q does not match its own name", p)
		}
	})
}
