package clientprom

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The series that every call counts in are our own, for what they cost; what they
// write is Prometheus' own.

// identity is what a series has beside its value.
type identity struct {
	desc   *prometheus.Desc
	labels []string
}

// Desc implements prometheus.Metric.
func (i *identity) Desc() *prometheus.Desc { return i.desc }

// histogram counts durations.
type histogram struct {
	identity
	tally
	tributaries
}

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	r := h.read()
	h.tally.addTo(&r)
	cumulative := make(map[float64]uint64, len(buckets))
	count := uint64(0)
	for i, bound := range buckets {
		count += r.counts[i]
		cumulative[bound.Seconds()] = count
	}
	m, err := prometheus.NewConstHistogram(h.desc, r.count(), r.sum.Seconds(), cumulative, h.labels...)
	if err != nil {
		return err
	}
	return m.Write(out)
}

// counter counts events.
type counter struct {
	identity
	atomic.Uint64
	tributaries
}

// Write implements prometheus.Metric.
func (c *counter) Write(out *dto.Metric) error {
	r := c.read()
	m, err := prometheus.NewConstMetric(c.desc, prometheus.CounterValue, float64(c.Load()+r.count()), c.labels...)
	if err != nil {
		return err
	}
	return m.Write(out)
}

// gauge is a number that goes up and down.
type gauge struct {
	identity
	atomic.Int64
}

// Write implements prometheus.Metric.
func (g *gauge) Write(out *dto.Metric) error {
	m, err := prometheus.NewConstMetric(g.desc, prometheus.GaugeValue, float64(g.Load()), g.labels...)
	if err != nil {
		return err
	}
	return m.Write(out)
}

// vector is the series of one name by their labels.
type vector[M prometheus.Metric] struct{ *prometheus.MetricVec }

func newVector[M prometheus.Metric](suffix, help string, series func(identity) M, labels ...string) vector[M] {
	d := desc(suffix, help, labels...)
	return vector[M]{prometheus.NewMetricVec(d, func(values ...string) prometheus.Metric {
		return series(identity{desc: d, labels: values})
	})}
}

// with returns the series of some label values, as WithLabelValues of Prometheus'
// vectors does; it panics when they are not as many as the labels.
func (v vector[M]) with(values ...string) M {
	m, err := v.GetMetricWithLabelValues(values...)
	if err != nil {
		panic(err)
	}
	return m.(M)
}

func newHistograms(suffix, help string, labels ...string) vector[*histogram] {
	return newVector(suffix, help, func(i identity) *histogram { return &histogram{identity: i} }, labels...)
}

func newCounters(suffix, help string, labels ...string) vector[*counter] {
	return newVector(suffix, help, func(i identity) *counter { return &counter{identity: i} }, labels...)
}

func newGauges(suffix, help string, labels ...string) vector[*gauge] {
	return newVector(suffix, help, func(i identity) *gauge { return &gauge{identity: i} }, labels...)
}
