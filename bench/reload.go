package main

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
	"github.com/timeout-operator/timeout-operator/clientlib/nethttp"
)

// reloadRules fit 5,000 times into the largest document.
const reloadRules = `"timeouts":{"total":"1s","attempt":"400ms"},"retry":{"maxAttempts":3,"budget":{}},"circuitBreaker":{}`

// reloads measures what a new document costs, and returns what the largest one
// takes from its text to being in force, in milliseconds.
func reloads(w io.Writer, o options) (largest float64, err error) {
	if !o.only.MatchString("reload/") {
		return 0, nil
	}
	fmt.Fprintln(w, "\nreload: medians in milliseconds; parse includes the check of the revision and the validation")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "upstreams\tKiB\tparse\tof it validate\tbuild and swap\twith one changed\tall together\tsnapshot KiB\tdocument KiB\tnew after one changed KiB\t")
	for _, n := range []int{1, 100, 5000} {
		if largest, err = reload(t, o, n); err != nil {
			return 0, err
		}
	}
	return largest, t.Flush()
}

// versions are two documents of n upstreams of which one differs.
func versions(n int) (texts [2][]byte) {
	host := func(i int) string { return fmt.Sprintf("u%d.shop:8080", i) }
	texts[0] = policies(n, host, reloadRules)
	texts[1] = []byte(strings.Replace(string(texts[0]), `"total":"1s"`, `"total":"2s"`, 1))
	return texts
}

func reload(w io.Writer, o options, n int) (whole float64, err error) {
	texts := versions(n)
	var parsing, validating, fresh, changed, together []float64
	took := func(list *[]float64, work func()) {
		began := time.Now()
		work()
		*list = append(*list, float64(time.Since(began))/float64(time.Millisecond))
	}
	e := engine.New(engine.Options{})
	for i := range o.rounds {
		var doc *document.Document
		text := texts[i%2]
		runtime.GC()
		took(&parsing, func() { doc, err = document.Parse(text) })
		if err != nil {
			return 0, err
		}
		took(&validating, func() { err = doc.Validate() })
		if err != nil {
			return 0, err
		}
		first := engine.New(engine.Options{})
		took(&fresh, func() { first.Swap(doc) })
		e.Swap(doc)
		var next *document.Document
		took(&together, func() {
			next, err = document.Parse(texts[(i+1)%2])
			if err == nil {
				took(&changed, func() { e.Swap(next) })
			}
		})
		if err != nil {
			return 0, err
		}
	}
	snapshot, doc, again, err := memory(texts)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "%d\t%.0f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t\n", n, float64(len(texts[0]))/1024,
		median(parsing), median(validating), median(fresh), median(changed), median(together), snapshot/1024, doc/1024, again/1024)
	return median(together), nil
}

// memory returns what a snapshot keeps, its document apart, and what the next one
// adds to it where one upstream changed. The snapshots share the document's
// strings.
func memory(texts [2][]byte) (snapshot, doc, again float64, err error) {
	const copies = 8
	var docs [copies][2]*document.Document
	doc = kept(copies, func(i int) {
		for v := range texts {
			if err == nil {
				docs[i][v], err = document.Parse(texts[v])
			}
		}
	}) / 2
	if err != nil {
		return 0, 0, 0, err
	}
	var engines [copies]*engine.Engine
	snapshot = kept(copies, func(i int) {
		engines[i] = engine.New(engine.Options{})
		engines[i].Swap(docs[i][0])
	})
	var before [copies]*engine.Snapshot
	again = kept(copies, func(i int) {
		before[i] = engines[i].Snapshot()
		engines[i].Swap(docs[i][1])
	})
	runtime.KeepAlive(docs)
	runtime.KeepAlive(engines)
	runtime.KeepAlive(before)
	return snapshot, doc, again, nil
}

// kept is how much memory is in use more after n times the work, for each.
func kept(n int, work func(i int)) float64 {
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	for i := range n {
		work(i)
	}
	return (float64(inUse()) - float64(before)) / float64(n)
}

// pauses times each of many calls, with and without a reload of 5,000 upstreams
// ten times a second. It returns p99.9 of those with, in milliseconds.
func pauses(w io.Writer, o options) (p999 float64, err error) {
	if !o.only.MatchString("pauses/") {
		return 0, nil
	}
	texts := versions(5000)
	doc, err := parse(texts[0])
	if err != nil {
		return 0, err
	}
	e := engine.New(engine.Options{})
	e.Swap(doc)
	c := &http.Client{Transport: nethttp.New(e, stub{})}
	fmt.Fprintln(w, "\npauses: calls on a stub transport, 5 s each; microseconds")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "calls\tp50\tp99\tp99.9\tmax\t")
	for _, reloading := range []bool{false, true} {
		times, reloads, err := timed(c, func() error {
			if !reloading {
				return nil
			}
			doc, err := document.Parse(texts[1])
			if err != nil {
				return err
			}
			texts[0], texts[1] = texts[1], texts[0]
			e.Swap(doc)
			return nil
		})
		if err != nil {
			return 0, err
		}
		slices.Sort(times)
		at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))]) / 1000 }
		what := "  without a reload"
		if reloading {
			what = fmt.Sprintf("  with %d reloads of 5000 upstreams", reloads)
		}
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.1f\t%.1f\t%s\n", len(times), at(.5), at(.99), at(.999), at(1), what)
		p999 = at(.999) / 1000
	}
	return p999, t.Flush()
}

// timed makes calls for five seconds while reload is done every 100 ms, and
// returns how long each call took.
func timed(c *http.Client, reload func() error) (times []time.Duration, reloads int, err error) {
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		for !stop.Load() {
			if err := reload(); err != nil {
				ended <- err
				return
			}
			reloads++
			time.Sleep(100 * time.Millisecond)
		}
		ended <- nil
	}()
	req, buffer := newRequest("http://u7.shop:8080/"), make([]byte, 512)
	times = make([]time.Duration, 0, 8<<20)
	for began := time.Now(); time.Since(began) < 5*time.Second && len(times) < cap(times); {
		before := time.Now()
		if err := get(c, req, buffer); err != nil {
			return nil, 0, err
		}
		times = append(times, time.Since(before))
	}
	stop.Store(true)
	return times, reloads, <-ended
}
