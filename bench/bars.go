package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// results are what the bars are about. What was not run is absent.
type results struct {
	groups map[string][]*testCase
	// reload is what 5,000 upstreams take from the text to being in force, pause the
	// p99.9 of a call while they are reloaded; milliseconds, 0 for not measured.
	reload, pause float64
}

// The cases that bars compare.
const (
	caseBare      = "bare"
	casePlain     = "context.WithTimeout"
	caseUnlimited = "ours, no policy for the host"
	caseAll       = "ours, all mechanisms"
)

// bar is what a figure has to keep to.
type bar struct {
	what  string
	value func(r *results) (value float64, ok bool)
	most  float64 // what it may be at most, or, negative, minus what it has to be at least
	unit  string
}

// bars are those of the call path and of a reload.
func bars() []bar {
	cost := func(of func(turn) float64) func(*results) (float64, bool) {
		return compared("stub", caseAll, caseBare, casePlain, func(c, b, p *testCase) float64 { return c.over(b, of) / p.over(b, of) })
	}
	throughput := func(group string) func(*results) (float64, bool) {
		return compared(group, caseAll, caseBare, casePlain, func(c, _, p *testCase) float64 { return p.timeRatio(c) })
	}
	lookup := func(group string) func(*results) (float64, bool) {
		return compared(group, "5000 upstreams", "5 upstreams", "5 upstreams", func(c, _, p *testCase) float64 { return c.timeRatio(p) })
	}
	return []bar{
		{"stub: cost over bare, by time", cost(wall), 1.25, "x context's"},
		{"stub: cost over bare, by CPU time", cost(cpu), 1.25, "x context's"},
		{"stub: cost over bare, by CPU time", peerCost, 1.0 / 3, "x the best peer's"},
		{"stub: allocations over bare", compared("stub", caseAll, caseBare, casePlain, func(c, b, _ *testCase) float64 { return c.over(b, allocs) }), 7, ""},
		{"stub, host without a policy: time over bare", compared("stub", caseUnlimited, caseBare, casePlain, func(c, b, _ *testCase) float64 { return c.over(b, wall) }), 150, "ns"},
		{"stub, host without a policy: allocations over bare", compared("stub", caseUnlimited, caseBare, casePlain, func(c, b, _ *testCase) float64 { return c.over(b, allocs) }), 0, ""},
		{"loopback, by time", compared("loopback", caseAll, caseBare, casePlain, func(c, _, p *testCase) float64 { return c.timeRatio(p) }), 1.02, "x context"},
		{"gRPC: allocations over context", compared("grpc", caseAll, caseBare, casePlain, func(c, _, p *testCase) float64 { return c.over(p, allocs) }), 2, ""},
		{"loopback, 64 callers: throughput", throughput("loopback-64"), -0.95, "x context"},
		{"loopback over HTTP/2, 64 callers: throughput", throughput("loopback-h2-64"), -0.95, "x context"},
		{"lookup in 5,000 upstreams", lookup("lookup"), 1.5, "x in 5"},
		{"lookup in 5,000 upstreams, wildcards", lookup("lookup-wildcard"), 1.5, "x in 5"},
		{"reload of 5,000 upstreams", func(r *results) (float64, bool) { return r.reload, r.reload > 0 }, 150, "ms"},
		{"p99.9 of a call while they are reloaded", func(r *results) (float64, bool) { return r.pause, r.pause > 0 }, 1, "ms"},
	}
}

// compared compares three cases of a group.
func compared(group, name, base, with string, compare func(c, base, with *testCase) float64) func(*results) (float64, bool) {
	return func(r *results) (float64, bool) {
		cases := r.groups[group]
		c, b, w := find(cases, name), find(cases, base), find(cases, with)
		if c == nil || b == nil || w == nil {
			return 0, false
		}
		return compare(c, b, w), true
	}
}

func peerCost(r *results) (float64, bool) {
	cases := r.groups["stub"]
	c, b := find(cases, caseAll), find(cases, caseBare)
	if c == nil || b == nil || best(cases, b) == nil {
		return 0, false
	}
	return c.over(b, cpu) / best(cases, b).over(b, cpu), true
}

// print writes each bar with what was measured; nothing where nothing was.
func (r *results) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	title := "\nBAR\tMEASURED\t\t\n"
	for _, b := range bars() {
		value, ok := b.value(r)
		if !ok {
			continue
		}
		sign, limit, held := "<=", b.most, value <= b.most
		if b.most < 0 {
			sign, limit, held = ">=", -b.most, value >= -b.most
		}
		verdict := "ok"
		if !held {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s%s\t%.2f %s\t%s %.3g\t%s\n", title, b.what, value, b.unit, sign, limit, verdict)
		title = ""
	}
	return t.Flush()
}
