package lineage

import (
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

func TestCompare(t *testing.T) {
	doc := func(policies ...document.PolicyRef) *document.Document {
		return &document.Document{Policies: policies}
	}
	p := func(uid string, generation int64) document.PolicyRef {
		return document.PolicyRef{Namespace: "shop", Name: "p", UID: uid, Generation: generation}
	}
	for _, c := range []struct {
		name string
		a, b *document.Document
		want int
	}{
		{"the same", doc(p("u", 1)), doc(p("u", 1)), 0},
		{"one policy changed", doc(p("u", 2)), doc(p("u", 1)), 1},
		{"one of two changed", doc(p("u", 1), p("v", 5)), doc(p("u", 1), p("v", 4)), 1},
		{"one changed, one was added and one taken away", doc(p("u", 2), p("v", 1)), doc(p("u", 1), p("w", 9)), 1},
		{"they contradict each other", doc(p("u", 2), p("v", 1)), doc(p("u", 1), p("v", 2)), 0},
		{"made anew under its name", doc(p("u", 1)), doc(p("v", 7)), 0},
		{"another one was added, or not yet taken away", doc(p("u", 1), p("v", 1)), doc(p("u", 1)), 0},
		{"nothing in common", doc(p("u", 1)), doc(), 0},
		{"written by hand, without a uid", doc(p("", 2)), doc(p("", 1)), 0},
	} {
		if got := Compare(c.a, c.b); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got := Compare(c.b, c.a); got != -c.want {
			t.Errorf("%s, the other way round: %d, want %d", c.name, got, -c.want)
		}
	}
}
