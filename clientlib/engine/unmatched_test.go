package engine

import (
	"reflect"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// T11 grpc/grpc-go#7446: a route of a method that does not exist matches nothing,
// and that can be seen.
func TestRoutesThatMatchNothingAreListed(t *testing.T) {
	e := New(Options{})
	swap := func(upstreams string) {
		t.Helper()
		doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[` + upstreams + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		e.Swap(doc)
	}
	call := func(host, path string) {
		e.Snapshot().Lookup(host, 80, document.Call{GRPC: true, Path: path})
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, u := range e.Snapshot().Unmatched() {
			got = append(got, u.Upstream+"/"+u.Route+" "+u.Match.GRPC.Method)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	const (
		get     = `{"name":"get","match":{"grpc":{"service":"pkg.Svc","method":"Get"}}}`
		missing = `{"name":"missing","match":{"grpc":{"service":"pkg.Svc","method":"Missing"}}}`
		renamed = `{"name":"missing","match":{"grpc":{"service":"pkg.Svc","method":"Found"}}}`
	)
	swap(`{"name":"a","hosts":["a"],"routes":[` + missing + `,` + get + `]},{"name":"b","hosts":["b"],"routes":[` + missing + `]}`)
	expect("before any call")
	call("a", "/pkg.Svc/List")
	expect("after a call of no route", "a/get Get", "a/missing Missing")
	call("a", "/pkg.Svc/Get")
	expect("after one of a route", "a/missing Missing")
	call("b", "/pkg.Svc/List")
	expect("after one of another upstream", "a/missing Missing", "b/missing Missing")

	swap(`{"name":"a","hosts":["a","c"],"routes":[` + renamed + `,` + get + `]}`)
	expect("after a swap")
	call("a", "/pkg.Svc/List")
	expect("a route that matched before has matched", "a/missing Found")
	call("a", "/pkg.Svc/Found")
	expect("after the mend")

	swap(`{"name":"a","hosts":["a"],"routes":[` + get + `]},{"name":"a","hosts":["c"],"timeouts":{"total":"1s"},"routes":[` + get + `,` + missing + `]}`)
	call("c", "/pkg.Svc/List")
	expect("entries of one upstream count together", "a/missing Missing")
}
