package clientprom

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// buckets cover a call inside a cluster up to the longest usual total.
var buckets = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// histogram counts durations, three times a call. Prometheus' own takes four
// atomic operations in as many places of memory, one of them in a loop, so that
// count and sum of a scrape are of the same instant; this one takes two, side by
// side, and the sum of a scrape may be some observations off its count. The zero
// value of what counts is empty.
type histogram struct {
	sum    atomic.Int64                    // nanoseconds
	counts [len(buckets) + 1]atomic.Uint64 // the last is for what is beyond
	desc   *prometheus.Desc
	labels []string
}

// observe counts a duration.
func (h *histogram) observe(d time.Duration) {
	at := 0
	for at < len(buckets) && d > buckets[at] {
		at++
	}
	h.counts[at].Add(1)
	h.sum.Add(int64(d))
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	cumulative := make(map[float64]uint64, len(buckets))
	count := uint64(0)
	for i := range h.counts {
		count += h.counts[i].Load()
		if i < len(buckets) {
			cumulative[buckets[i].Seconds()] = count
		}
	}
	m, err := prometheus.NewConstHistogram(h.desc, count, time.Duration(h.sum.Load()).Seconds(), cumulative, h.labels...)
	if err != nil {
		return err
	}
	return m.Write(out)
}

// histograms are the histograms of one name by their labels.
type histograms struct{ *prometheus.MetricVec }

func newHistograms(suffix, help string, labels ...string) histograms {
	d := desc(suffix, help, labels...)
	return histograms{prometheus.NewMetricVec(d, func(values ...string) prometheus.Metric {
		return &histogram{desc: d, labels: values}
	})}
}

// with returns the histogram of some label values, as WithLabelValues of
// Prometheus' vectors does; it panics when they are not as many as the labels.
func (v histograms) with(values ...string) *histogram {
	m, err := v.GetMetricWithLabelValues(values...)
	if err != nil {
		panic(err)
	}
	return m.(*histogram)
}
