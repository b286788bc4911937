package clientprom

import (
	"sync"
	"sync/atomic"
	"time"
)

// buckets cover a call inside a cluster up to the longest usual total.
var buckets = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// tally counts durations. The zero value is empty. Prometheus' own histogram takes
// four atomic operations in as many places of memory, one of them in a loop, so that
// count and sum of a scrape are of the same instant; this one takes two, side by
// side, and the sum of a scrape may be some observations off its count.
type tally struct {
	sum    atomic.Int64                    // nanoseconds
	counts [len(buckets) + 1]atomic.Uint64 // the last is for what is beyond
}

func (t *tally) observe(d time.Duration) {
	t.counts[bucketOf(d)].Add(1)
	t.sum.Add(int64(d))
}

func bucketOf(d time.Duration) int {
	at := 0
	for at < len(buckets) && d > buckets[at] {
		at++
	}
	return at
}

// addTo implements tributary.
func (t *tally) addTo(r *reading) {
	for i := range t.counts {
		r.counts[i] += t.counts[i].Load()
	}
	r.sum += time.Duration(t.sum.Load())
}

// reading is what tallies had counted when they were read.
type reading struct {
	sum    time.Duration
	counts [len(buckets) + 1]uint64
}

func (r *reading) count() (n uint64) {
	for _, c := range r.counts {
		n += c
	}
	return n
}

// tributary is what counts for a series beside what that counts itself: a call that
// counts in several is counted once, and added up when somebody looks.
type tributary interface{ addTo(*reading) }

// tributaries are those of a series. The zero value is none.
type tributaries struct {
	mu   sync.Mutex
	list []tributary
}

func (t *tributaries) join(more tributary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, more)
}

func (t *tributaries) read() (r reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, more := range t.list {
		more.addTo(&r)
	}
	return r
}
