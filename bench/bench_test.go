package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every client of every group does its work; the numbers are nobody's business
// here.
func TestEveryCaseRuns(t *testing.T) {
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			cases, done, err := g.open()
			defer done()
			if err != nil {
				t.Fatal(err)
			}
			if find(cases, g.base) == nil || find(cases, g.plain) == nil {
				t.Errorf("there is no case %q or %q to compare with", g.base, g.plain)
			}
			for _, c := range cases {
				if err := c.run(70); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		})
	}
}

func TestReloadIsMeasured(t *testing.T) {
	took, err := reloads(io.Discard, options{only: regexp.MustCompile("reload"), rounds: 2})
	if err != nil || took <= 0 {
		t.Fatalf("%v ms, %v", took, err)
	}
}

// measured is a case with turns of the given times.
func measured(name string, full bool, nanoseconds ...float64) *testCase {
	c := &testCase{name: name, full: full, n: 100}
	for _, ns := range nanoseconds {
		c.turns = append(c.turns, turn{wall: ns, cpu: ns, bytes: 8, allocs: 2})
	}
	return c
}

// A round in which the machine was busy touches all cases, and no ratio.
func TestRatiosAreThoseOfARound(t *testing.T) {
	bare := measured("bare", false, 100, 1000, 100)
	plain := measured("plain", false, 200, 2000, 200)
	ours := measured("ours", false, 150, 1500, 150)
	if r := ours.ratio(plain, wall); r != 0.75 {
		t.Errorf("ratio %v, want 0.75", r)
	}
	if o := ours.over(bare, cpu); o != 50 {
		t.Errorf("%v over bare, want 50", o)
	}
	if m := measured("", false, 4, 1, 3, 2).median(wall); m != 2.5 {
		t.Errorf("median %v, want 2.5", m)
	}
}

// Cases that were timed beside a third, each in a spell of its own, are compared by
// what they took as a part of that.
func TestAlternatingCasesAreComparedByTheirNeighbour(t *testing.T) {
	beside := func(wall, plain float64) *testCase {
		return &testCase{turns: []turn{{wall: wall, beside: plain}, {wall: 3 * wall, beside: 3 * plain}}}
	}
	plain, ours, bare := beside(200, 200), beside(303, 300), beside(90, 100)
	if r := ours.timeRatio(plain); r != 1.01 {
		t.Errorf("ratio %v, want 1.01", r)
	}
	if r := plain.timeRatio(bare); r != 1/0.9 {
		t.Errorf("ratio %v, want %v", r, 1/0.9)
	}
	if r := measured("", false, 150).timeRatio(measured("", false, 200)); r != 0.75 {
		t.Errorf("ratio of cases that had turns in a row %v, want 0.75", r)
	}
}

func TestAlternationGivesBothTheSameWork(t *testing.T) {
	const spell = 7
	counted := func(n *int) *testCase {
		return &testCase{run: func(more int) error { *n += more; return nil }}
	}
	var own, others int
	c, other := counted(&own), counted(&others)
	if _, _, err := c.timeBeside(other, spell, 10*spell); err != nil || own != 10*spell || others != own {
		t.Errorf("%d and %d calls, %v", own, others, err)
	}
	other.name, other.run = "the other", func(int) error { return io.ErrUnexpectedEOF }
	if _, _, err := c.timeBeside(other, spell, 10*spell); err == nil || !strings.Contains(err.Error(), "the other") {
		t.Errorf("error %v does not say whose it is", err)
	}
}

func TestTheTableComparesWithTheCheapestFullPeer(t *testing.T) {
	g := &group{name: "stub", title: "a stub", base: "bare", plain: "plain"}
	var out strings.Builder
	g.print(&out, []*testCase{
		measured("bare", false, 100), measured("plain", false, 200), measured("ours", false, 150),
		measured("cheap but does less", false, 101), measured("dear", true, 900), measured("peer", true, 300),
	})
	lines := strings.Split(out.String(), "\n")
	var row []string
	for _, line := range lines {
		if strings.HasSuffix(line, "  ours") {
			row = strings.Fields(line)
		}
	}
	want := "150 150 8 2 +0 1.50 0.75 0.75 0.50 0.50 0.25 ours"
	if got := strings.Join(row, " "); got != want {
		t.Errorf("the row of ours is\n%s, want\n%s in\n%s", got, want, out.String())
	}
}

func TestRawResultsAreThoseOfGoBenchmarks(t *testing.T) {
	var out strings.Builder
	writeRawHeader(&out)
	(&group{name: "stub"}).writeRaw(&out, []*testCase{measured("ours, all", false, 150, 160)})
	form := regexp.MustCompile(`(?m)^Benchmarkstub/ours,_all-\d+\t100\t150\.0 ns/op\t150\.0 cpu-ns/op\t8 B/op\t2 allocs/op$`)
	if !form.MatchString(out.String()) {
		t.Errorf("not what benchstat reads:\n%s", out.String())
	}
}

func TestFiguresAreHeldToTheirBars(t *testing.T) {
	r := &results{groups: map[string][]*testCase{
		"stub": {measured(caseBare, false, 100), measured(casePlain, false, 200), measured(caseAll, false, 230), measured("peer", true, 400)},
	}, reload: 20}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"BAR MEASURED",
		"stub: cost over bare, by time 1.30 x context's <= 1.25 MISSED",
		"stub: cost over bare, by CPU time 1.30 x context's <= 1.25 MISSED",
		"stub: cost over bare, by CPU time 0.43 x the best peer's <= 0.333 MISSED",
		"stub: allocations over bare 0.00 <= 7 ok",
		"reload of 5,000 upstreams 20.00 ms <= 150 ok",
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	out.Reset()
	if err := new(results).print(&out); err != nil || out.Len() > 0 {
		t.Errorf("without results: %q, %v", out.String(), err)
	}
}

// A bar about a case that has another name by now would be left out in silence.
func TestEveryBarFindsItsCases(t *testing.T) {
	r := &results{groups: map[string][]*testCase{}, reload: 1, pause: 1}
	for _, g := range groups() {
		cases, done, err := g.open()
		done()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			c.turns = []turn{{wall: 1, cpu: 1}}
		}
		r.groups[g.name] = cases
	}
	for _, b := range bars() {
		if _, ok := b.value(r); !ok {
			t.Errorf("%s: nothing to compare", b.what)
		}
	}
}
