package adaptertest

import (
	"slices"
	"testing"
)

// A machine that was busy spoils one look, an adapter all of them.
func TestWhatIsFoundHasToBeFoundAgain(t *testing.T) {
	for _, c := range []struct {
		finds [][]string
		want  []string
		looks int
	}{
		{[][]string{nil}, nil, 1},
		{[][]string{{"late"}, nil}, nil, 2},
		{[][]string{{"late"}, {"late again"}, nil}, nil, 3},
		{[][]string{{"a"}, {"a"}, {"a", "b"}}, []string{"a", "b"}, 3},
	} {
		n := 0
		got := check{name: "of a test", find: func(testing.TB, *Adapter) []string { n++; return c.finds[n-1] }}.confirm(t, &Adapter{})
		if !slices.Equal(got, c.want) || n != c.looks {
			t.Errorf("%v: %v after %d looks, want %v after %d", c.finds, got, n, c.want, c.looks)
		}
	}
}
