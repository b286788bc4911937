package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Lookup is held to the reference of package document on random documents.
func TestLookupEqualsTheReference(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	label := func() string { return pick("a", "b", "shop", "orders", "x-y") }
	name := func() string {
		n := label()
		for range random.IntN(4) {
			n += "." + label()
		}
		return n
	}
	port := func() string { return pick("", "", ":80", ":443", ":8080") }
	pattern := func() string {
		return pick(name()+port(), "*."+name()+port(), "*."+label()+port(), "10.0.0.1"+port(), "[2001:db8::1]"+port())
	}
	type match = map[string]any
	route := func() match {
		m := match{}
		if random.IntN(2) == 0 {
			m["methods"] = []string{pick("GET", "POST", "PUT")}
		}
		if random.IntN(3) > 0 {
			m["path"] = pick("/", "/a", "/a/", "/a/b", "/orders")
			m["pathMatch"] = pick("Exact", "Prefix")
		}
		if random.IntN(4) == 0 {
			m = match{"grpc": match{"service": pick("a", "b")}}
		}
		return m
	}
	documents, hits := 0, 0
	for documents < 400 {
		var upstreams []match
		taken := map[string]bool{}
		for i := range 1 + random.IntN(6) {
			var hosts []string
			for range 1 + random.IntN(4) {
				if p := pattern(); !taken[p] {
					taken[p] = true
					hosts = append(hosts, p)
				}
			}
			if len(hosts) == 0 {
				continue
			}
			u := match{"name": fmt.Sprintf("u%d", i), "hosts": hosts}
			var routes []match
			for j := range random.IntN(4) {
				routes = append(routes, match{"name": fmt.Sprintf("r%d", j), "match": route()})
			}
			u["routes"] = routes
			upstreams = append(upstreams, u)
		}
		text, err := json.Marshal(match{"schema": 1, "upstreams": upstreams})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := document.Parse(text)
		if err != nil {
			continue // two routes that select the same calls, say
		}
		documents++
		s := New(Options{}).Swap(doc)
		for range 300 {
			host := pick(name(), name(), name()+".", "SHOP."+name(), "10.0.0.1", "2001:DB8:0::1", ".a", "a..b", "", ".", "*.a")
			p := []uint16{0, 80, 443, 8080, 9}[random.IntN(5)]
			call := document.Call{Method: pick("", "GET", "POST"), Path: pick("/", "/a", "/a/b", "/a/bc", "/orders/7", "")}
			if random.IntN(5) == 0 {
				call = document.Call{GRPC: true, Path: pick("/a/M", "/b/M", "/c/M")}
			}
			wantUp, wantRoute := doc.Lookup(host, p, call)
			got := s.Lookup(host, p, call)
			var want, have string
			if wantUp != nil {
				want = wantUp.Name + "/"
				hits++
			}
			if wantRoute != nil {
				want += wantRoute.Name
			}
			if got != nil {
				have = got.Upstream + "/" + got.Route
			}
			if have != want {
				t.Fatalf("%q port %d %+v: found %q, the reference %q, in\n%s", host, p, call, have, want, text)
			}
		}
	}
	if hits < 10000 {
		t.Errorf("only %d lookups found anything", hits)
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[{"name":"a","hosts":["orders.shop.svc:80","*.example.com"],
		"routes":[{"name":"r","match":{"methods":["POST"],"path":"/v1"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{}).Swap(doc)
	for _, host := range []string{"orders.shop.svc", "deep.below.example.com", "elsewhere"} {
		if n := testing.AllocsPerRun(100, func() { s.Lookup(host, 80, document.Call{Method: "GET", Path: "/v1/x"}) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// resilience4j#2181 #850 #1116 #2325, R25: state survives a reload, whatever else
// of the upstream changed, and belongs to it alone.
func TestStateIsTakenOverOnASwap(t *testing.T) {
	e := New(Options{})
	swap := func(upstreams string) *Snapshot {
		t.Helper()
		doc, err := document.Parse([]byte(`{"schema":1,"upstreams":[` + upstreams + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return e.Swap(doc)
	}
	state := func(s *Snapshot, host string) *State {
		t.Helper()
		p := s.Lookup(host, 80, document.Call{})
		if p == nil {
			t.Fatalf("%s is not in the document", host)
		}
		return p.state
	}
	first := swap(`{"name":"a","hosts":["a","a.shop","*.a"],"circuitBreaker":{}},{"name":"b","hosts":["b"]}`)
	a, b := state(first, "a"), state(first, "b")
	if a == b || a != state(first, "x.a") {
		t.Fatal("state is per upstream")
	}
	changed := swap(`{"name":"a","hosts":["a.shop","a.other"],"circuitBreaker":{"failures":9},"routes":[{"name":"r","match":{"path":"/r"}}]},{"name":"b","hosts":["a"]}`)
	if state(changed, "a.other") != a || changed.Lookup("a.shop", 80, document.Call{Path: "/r"}).state != a {
		t.Error("the state was lost with a change of the upstream")
	}
	if got := state(changed, "a"); got == a || got == b {
		t.Error("the state went to an upstream of another name, or without a host in common")
	}
	if got := state(swap(`{"name":"a","hosts":["a.other"]}`), "a.other"); got != a {
		t.Error("the state was lost when a breaker was taken away")
	}
	e.Swap(nil)
	if e.Snapshot().Lookup("a", 80, document.Call{}) != nil {
		t.Error("the policy outlived its removal")
	}
	if got := state(swap(`{"name":"a","hosts":["a.other"]}`), "a.other"); got == a {
		t.Error("the state outlived its removal")
	}
}

// R25 project-zot/zot#4384: a section that a reload adds works at once.
func TestABreakerThatAReloadAddsWorksAtOnce(t *testing.T) {
	e := New(Options{})
	swapped(t, e, ``)
	p := swapped(t, e, `"circuitBreaker":{"failures":1,"recovery":"1h"}`).Lookup("orders", 80, document.Call{})
	entry, _, ok := p.state.breaker.admit(p.breaker, noon)
	if !ok {
		t.Fatal("refused by a new breaker")
	}
	p.state.breaker.report(p.breaker, entry, signalFailure, noon)
	if p.state.Circuit() != CircuitOpened {
		t.Error("it does not open")
	}
	p = swapped(t, e, `"circuitBreaker":{"failures":1,"recovery":"1s"}`).Lookup("orders", 80, document.Call{})
	if _, wait, ok := p.state.breaker.admit(p.breaker, noon); ok || wait != time.Second {
		t.Errorf("after a reload: admitted %t, wait %s; want open with the new recovery", ok, wait)
	}
}
