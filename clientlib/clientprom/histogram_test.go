package clientprom

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func written(t *testing.T, m prometheus.Metric) *dto.Metric {
	t.Helper()
	out := new(dto.Metric)
	if err := m.Write(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The histogram says what Prometheus' own says of the same durations.
func TestHistogramEqualsPrometheus(t *testing.T) {
	var bounds []float64
	for _, b := range buckets {
		bounds = append(bounds, b.Seconds())
	}
	reference := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Help: "h", Buckets: bounds}, []string{"b", "a"})
	ours := newHistograms("h", "h", "b", "a")
	random := rand.New(rand.NewPCG(1, 2))
	durations := []time.Duration{0, 1, -time.Second, time.Hour}
	for _, b := range buckets {
		durations = append(durations, b-1, b, b+1, time.Duration(random.Int64N(int64(2*b))))
	}
	for _, d := range durations {
		reference.WithLabelValues("x", "y").Observe(d.Seconds())
		ours.with("x", "y").observe(d)
	}
	want := written(t, reference.WithLabelValues("x", "y").(prometheus.Metric))
	got := written(t, ours.with("x", "y"))
	if got.GetHistogram().GetSampleCount() != want.GetHistogram().GetSampleCount() {
		t.Errorf("count %d, want %d", got.GetHistogram().GetSampleCount(), want.GetHistogram().GetSampleCount())
	}
	if d := got.GetHistogram().GetSampleSum() - want.GetHistogram().GetSampleSum(); d > 1e-6 || d < -1e-6 {
		t.Errorf("sum %v, want %v", got.GetHistogram().GetSampleSum(), want.GetHistogram().GetSampleSum())
	}
	for i, w := range want.GetHistogram().GetBucket() {
		if g := got.GetHistogram().GetBucket()[i]; g.GetUpperBound() != w.GetUpperBound() || g.GetCumulativeCount() != w.GetCumulativeCount() {
			t.Errorf("bucket %d is %v, want %v", i, g, w)
		}
	}
	for i, w := range want.GetLabel() {
		if g := got.GetLabel()[i]; g.GetName() != w.GetName() || g.GetValue() != w.GetValue() {
			t.Errorf("label %d is %v, want %v", i, g, w)
		}
	}
}

func TestNoObservationIsLost(t *testing.T) {
	h := newHistograms("h", "h").with()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				h.observe(time.Millisecond)
			}
		})
	}
	all.Wait()
	if m := written(t, h).GetHistogram(); m.GetSampleCount() != 8000 || m.GetSampleSum() != 8 {
		t.Errorf("%d observations of %v s", m.GetSampleCount(), m.GetSampleSum())
	}
}
