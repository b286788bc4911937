package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// group is work that is done by several cases, to be compared.
type group struct {
	name string
	// what the group measures, for people.
	title string
	// base is the case that the others add to, plain the one that does the
	// minimum that is asked for (a deadline).
	base, plain string
	// network says that the work goes over one.
	network bool
	// spell is after how many calls it is plain's turn, beside which each case is
	// timed, see alternating; 0 for turns in a row.
	spell int
	// open makes the cases; close ends what they need.
	open func() (cases []*testCase, close func(), err error)
}

// testCase does the work of a group with one client.
type testCase struct {
	name string
	// full says that the peer has a total, an attempt timeout, retries and a
	// circuit breaker: the best of them is the one to beat.
	full bool
	// run does the work n times.
	run func(n int) error
	// timed does the work n times and says what it took each time; nil where that
	// is the time of run.
	timed func(n int) (time.Duration, error)

	n     int // operations in a turn
	turns []turn
}

// turn is what one operation cost, on average of a turn.
type turn struct {
	wall, cpu     float64 // nanoseconds
	beside        float64 // what one of plain took meanwhile, where they alternate
	bytes, allocs float64
}

// Calls over a network get more turns, and shorter ones. What one costs depends on
// which core wakes which and on what else the machine does, in spells of some
// milliseconds, and scatters by more than what clients differ by; and by one or two
// percent on where in memory the clients, the connection and the server happen to lie,
// so these are made anew several times.
const (
	networkRounds   = 20 // times as many turns
	networkShorter  = 5  // times
	networkOpenings = 60
)

// longer is how many times as long as the others the case is timed that bars are about:
// it has to be told from one that takes a hundredth more.
const longer = 4

// alternating has each case of a group alternate with plain, after a number of calls of
// each caller: what the machine does meanwhile then touches both alike. The ratio is
// that of turns in a row, but its standard error is a third of that after the same time.
func alternating(g *group, callers int) *group {
	const calls = 4
	g.spell = calls * callers
	return g
}

// selected leaves the cases that the pattern names, and those that the others are
// compared with.
func (g *group) selected(cases []*testCase, o options) []*testCase {
	var chosen []*testCase
	for _, c := range cases {
		if o.only.MatchString(g.name + "/" + c.name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// run runs and prints the group, and returns the cases that were run.
func (g *group) run(w io.Writer, o options) ([]*testCase, error) {
	rounds, openings := o.rounds, 1
	if g.network {
		rounds, openings = networkRounds*rounds, min(networkOpenings, rounds)
	}
	var cases []*testCase
	for i := range openings {
		var err error
		if cases, err = g.measure(o, cases, rounds*(i+1)/openings-rounds*i/openings); err != nil {
			return nil, err
		}
	}
	if len(cases) == 0 {
		return nil, nil
	}
	g.print(w, cases)
	if o.raw != nil {
		g.writeRaw(o.raw, cases)
	}
	return cases, nil
}

// measure opens the group for some rounds, and returns the cases with what they were
// measured before and now.
func (g *group) measure(o options, before []*testCase, rounds int) ([]*testCase, error) {
	cases, done, err := g.open()
	if err != nil {
		return nil, err
	}
	defer done()
	if cases = g.selected(cases, o); len(cases) == 0 {
		return nil, nil
	}
	turn := o.turn
	if g.network {
		turn /= networkShorter
	}
	if g.spell > 0 {
		turn /= 2 // most of it twice
	}
	for i, c := range cases {
		if before != nil {
			c.n, c.turns = before[i].n, before[i].turns
		}
		if err := c.warmUp(turn); err != nil {
			return nil, err
		}
	}
	plain := find(cases, g.plain)
	for range rounds {
		for _, i := range rand.Perm(len(cases)) {
			t, err := g.turn(cases[i], plain)
			if err != nil {
				return nil, err
			}
			cases[i].turns = append(cases[i].turns, t)
		}
	}
	return cases, nil
}

// turn gives a case its turn.
func (g *group) turn(c, plain *testCase) (turn, error) {
	t, err := c.turn()
	if err != nil || g.spell == 0 || plain == nil {
		return t, err
	}
	if c == plain {
		t.beside = t.wall
		return t, nil
	}
	n := c.n
	if c.name == caseAll {
		n *= longer
	}
	t.wall, t.beside, err = c.timeBeside(plain, g.spell, n)
	return t, err
}

// timeBeside times n times the work and that of another case, in alternation.
func (c *testCase) timeBeside(other *testCase, spell, n int) (own, others float64, err error) {
	pair, took := [...]*testCase{c, other}, [2]time.Duration{}
	spells := max(1, n/spell)
	for range spells {
		first := rand.IntN(2)
		for _, i := range [...]int{first, 1 - first} {
			began := time.Now()
			if err := pair[i].run(spell); err != nil {
				return 0, 0, pair[i].told(err)
			}
			took[i] += time.Since(began)
		}
	}
	each := float64(spells * spell)
	return float64(took[0]) / each, float64(took[1]) / each, nil
}

// warmUp does some of the work, and finds how many operations fill a turn where that
// is not known yet.
func (c *testCase) warmUp(turn time.Duration) error {
	if c.n == 0 {
		return c.calibrate(turn)
	}
	_, err := c.work(c.n)
	return err
}

// calibrate finds how many operations fill a turn.
func (c *testCase) calibrate(want time.Duration) error {
	for c.n = 64; ; c.n *= 2 {
		began := time.Now()
		if _, err := c.work(c.n); err != nil {
			return err
		}
		if took := time.Since(began); took > want/4 {
			c.n = max(64, int(float64(c.n)*float64(want)/float64(took)))
			return nil
		}
	}
}

// turn does the work of a turn.
func (c *testCase) turn() (turn, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := c.work(c.n)
	runtime.ReadMemStats(&after)
	t := u.each(c.n)
	t.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(c.n)
	t.allocs = float64(after.Mallocs-before.Mallocs) / float64(c.n)
	return t, err
}

// usage is what work took.
type usage struct{ wall, cpu time.Duration }

func (u usage) each(n int) turn {
	return turn{wall: float64(u.wall) / float64(n), cpu: float64(u.cpu) / float64(n)}
}

// work does the work n times.
func (c *testCase) work(n int) (usage, error) {
	if c.timed != nil {
		each, err := c.timed(n)
		return usage{wall: each * time.Duration(n), cpu: each * time.Duration(n)}, c.told(err)
	}
	cpu, began := cpuTime(), time.Now()
	err := c.run(n)
	return usage{wall: time.Since(began), cpu: cpuTime() - cpu}, c.told(err)
}

// told says whose error it is.
func (c *testCase) told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// cpuTime is what this process has used so far, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func (c *testCase) median(of func(turn) float64) float64 {
	values := make([]float64, len(c.turns))
	for i, t := range c.turns {
		values[i] = of(t)
	}
	return median(values)
}

// over is the median of what the case cost more than another in the same round.
func (c *testCase) over(other *testCase, of func(turn) float64) float64 {
	values := make([]float64, len(c.turns))
	for i := range c.turns {
		values[i] = of(c.turns[i]) - of(other.turns[i])
	}
	return median(values)
}

// ratio is the median of the case's cost as a part of another's in the same
// round.
func (c *testCase) ratio(other *testCase, of func(turn) float64) float64 {
	values := make([]float64, len(c.turns))
	for i := range c.turns {
		values[i] = of(c.turns[i]) / of(other.turns[i])
	}
	return median(values)
}

// timeRatio is ratio by time. Cases that were timed beside a third are compared by
// what they took as a part of that.
func (c *testCase) timeRatio(other *testCase) float64 {
	if len(c.turns) == 0 || c.turns[0].beside == 0 {
		return c.ratio(other, wall)
	}
	return c.median(besides) / other.median(besides)
}

func besides(t turn) float64 { return t.wall / t.beside }

// writeRaw writes each turn as a line of a Go benchmark.
func (g *group) writeRaw(w io.Writer, cases []*testCase) {
	for _, c := range cases {
		name := strings.ReplaceAll(g.name+"/"+c.name, " ", "_")
		for _, t := range c.turns {
			fmt.Fprintf(w, "Benchmark%s-%d\t%d\t%.1f ns/op\t%.1f cpu-ns/op\t%.0f B/op\t%.0f allocs/op",
				name, runtime.GOMAXPROCS(0), c.n, t.wall, t.cpu, t.bytes, t.allocs)
			if t.beside > 0 {
				fmt.Fprintf(w, "\t%.4f x-plain", besides(t))
			}
			fmt.Fprintln(w)
		}
	}
}
