package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

func wall(t turn) float64   { return t.wall }
func cpu(t turn) float64    { return t.cpu }
func bytes(t turn) float64  { return t.bytes }
func allocs(t turn) float64 { return t.allocs }

func find(cases []*testCase, name string) *testCase {
	for _, c := range cases {
		if c.name == name {
			return c
		}
	}
	return nil
}

// best is the cheapest full peer.
func best(cases []*testCase, base *testCase) *testCase {
	var found *testCase
	for _, c := range cases {
		if c.full && (found == nil || c.over(base, cpu) < found.over(base, cpu)) {
			found = c
		}
	}
	return found
}

// print writes the table of a group. Ratios are medians of the ratios within a
// round; the cost of a case is what it takes more than the bare client.
func (g *group) print(w io.Writer, cases []*testCase) {
	base, plain := find(cases, g.base), find(cases, g.plain)
	fmt.Fprintf(w, "\n%s: %s\n", g.name, g.title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	if base == nil || plain == nil {
		fmt.Fprintln(t, "ns\tCPU ns\tB\tallocs\t  case")
		for _, c := range cases {
			fmt.Fprintf(t, "%s\t  %s\n", c.numbers(), c.name)
		}
		return
	}
	if base == plain {
		fmt.Fprintf(t, "ns\tCPU ns\tB\tallocs\tx %s\tCPU\t  case\n", base.name)
		for _, c := range cases {
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t  %s\n", c.numbers(), c.timeRatio(base), c.ratio(base, cpu), c.name)
		}
		return
	}
	peer := best(cases, base)
	if g.network {
		printRatios(t, cases, base, plain, peer)
		return
	}
	fmt.Fprintf(t, "ns\tCPU ns\tB\tallocs\t+allocs\tx bare\tx context\tCPU\tcost/context's\tCPU\tcost/best peer's\t  case\n")
	for _, c := range cases {
		fmt.Fprintf(t, "%s\t%+.0f\t%.2f\t%.2f\t%.2f\t", c.numbers(), c.over(base, allocs), c.timeRatio(base), c.timeRatio(plain), c.ratio(plain, cpu))
		if c == base {
			fmt.Fprintf(t, "\t\t\t  %s\n", c.name)
			continue
		}
		fmt.Fprintf(t, "%.2f\t%.2f\t", c.over(base, wall)/plain.over(base, wall), c.over(base, cpu)/plain.over(base, cpu))
		if peer != nil {
			fmt.Fprintf(t, "%.2f", c.over(base, cpu)/peer.over(base, cpu))
		}
		fmt.Fprintf(t, "\t  %s\n", c.name)
	}
}

// printRatios is for a network, beside which what a client costs is a small
// difference of two large numbers.
func printRatios(t io.Writer, cases []*testCase, base, plain, peer *testCase) {
	fmt.Fprintf(t, "ns\tCPU ns\tB\tallocs\t+allocs\tx bare\tx context\tCPU\tx best peer\tCPU\t  case\n")
	for _, c := range cases {
		fmt.Fprintf(t, "%s\t%+.0f\t%.2f\t%.2f\t%.2f\t", c.numbers(), c.over(base, allocs), c.timeRatio(base), c.timeRatio(plain), c.ratio(plain, cpu))
		if peer == nil {
			peer = plain
		}
		fmt.Fprintf(t, "%.2f\t%.2f\t  %s\n", c.timeRatio(peer), c.ratio(peer, cpu), c.name)
	}
}

func (c *testCase) numbers() string {
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%.0f", c.median(wall), c.median(cpu), c.median(bytes), c.median(allocs))
}
