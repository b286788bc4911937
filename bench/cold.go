package main

import (
	"net/http"
	"slices"
	"time"
)

// evicted is more than the processor's caches hold for one core.
const evicted = 6 << 20

// coldGroup times each call alone, after other work took the processor's caches:
// what a service does between two calls. A loop of nothing but calls flatters
// everybody, most of all those with much code and data.
func coldGroup(name, title string, base http.RoundTripper) *group {
	g := stubGroup(name, title, base, sequentially)
	open := g.open
	g.open = func() ([]*testCase, func(), error) {
		cases, done, err := open()
		others := make([]byte, evicted)
		for _, c := range cases {
			c.timed = func(n int) (time.Duration, error) { return coldly(others, n, c.run) }
		}
		return cases, done, err
	}
	return g
}

// coldly returns the median of n times the work.
func coldly(others []byte, n int, run func(int) error) (time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for range n {
		for i := 0; i < len(others); i += 64 {
			others[i]++
		}
		began := time.Now()
		if err := run(1); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[n/2], nil
}
