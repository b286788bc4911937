package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// Values of the label result of timeouts_operator_apply_total.
const (
	resultCreated = "created"
	resultUpdated = "updated"
	resultDeleted = "deleted"
	// resultKept: not written on purpose, since policies vanished together with
	// their CustomResourceDefinition.
	resultKept   = "kept"
	resultFailed = "failed"
)

// Values of the label state of timeouts_operator_reports.
const (
	stateReady    = "ready"
	stateStale    = "stale"
	stateFallback = "fallback"
	// stateOrphan: there is no live pod for the report.
	stateOrphan = "orphan"
)

// Metrics of the operator. Their names and labels are part of the contract. The
// gauges are sums over what the last reconcile of each namespace saw. Safe for
// concurrent use.
type Metrics struct {
	applies *prometheus.CounterVec
	drift   prometheus.Counter

	policies, documents, bytes, reports *prometheus.Desc

	mu         sync.Mutex
	namespaces map[string]*tally
}

// tally is one namespace's share of the gauges.
type tally struct {
	policies         map[policyLabels]int
	documents, bytes int
	reports          map[string]int
}

type policyLabels struct{ condition, status string }

// NewMetrics returns metrics that are registered with a registry, which must
// not have them yet.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		applies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "timeouts_operator_apply_total",
			Help: "Documents by what became of writing them: created, updated, deleted, kept (not written on purpose) or failed.",
		}, []string{"result"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "timeouts_operator_drift_repairs_total",
			Help: "Documents that somebody else had changed or deleted and that were written again.",
		}),
		policies: prometheus.NewDesc("timeouts_operator_policies",
			"Policies by condition and its status.", []string{"condition", "status"}, nil),
		documents: prometheus.NewDesc("timeouts_operator_documents",
			"Rendered documents, tombstones included.", nil, nil),
		bytes: prometheus.NewDesc("timeouts_operator_document_bytes",
			"Size of all rendered documents together.", nil, nil),
		reports: prometheus.NewDesc("timeouts_operator_reports",
			"Client reports by their worst client: ready, stale or fallback; orphan is one without a live pod.", []string{"state"}, nil),
		namespaces: map[string]*tally{},
	}
	for _, result := range []string{resultCreated, resultUpdated, resultDeleted, resultKept, resultFailed} {
		m.applies.WithLabelValues(result)
	}
	return m, registry.Register(m)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	m.applies.Describe(descs)
	m.drift.Describe(descs)
	for _, desc := range []*prometheus.Desc{m.policies, m.documents, m.bytes, m.reports} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.applies.Collect(metrics)
	m.drift.Collect(metrics)
	total := m.total()
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for labels, n := range total.policies {
		gauge(m.policies, n, labels.condition, labels.status)
	}
	gauge(m.documents, total.documents)
	gauge(m.bytes, total.bytes)
	for state, n := range total.reports {
		gauge(m.reports, n, state)
	}
}

func (m *Metrics) total() tally {
	total := tally{
		policies: map[policyLabels]int{},
		reports:  map[string]int{stateReady: 0, stateStale: 0, stateFallback: 0, stateOrphan: 0},
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.namespaces {
		for labels, n := range t.policies {
			total.policies[labels] += n
		}
		for state, n := range t.reports {
			total.reports[state] += n
		}
		total.documents += t.documents
		total.bytes += t.bytes
	}
	return total
}

// Reset forgets the gauges: after it lost the lead or was stopped, a process
// has nothing to say about the cluster.
func (m *Metrics) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.namespaces = map[string]*tally{}
}

// observe replaces a namespace's share of the gauges.
func (m *Metrics) observe(f *facts, out plan.Output) {
	t := &tally{policies: map[policyLabels]int{}, reports: f.reports, documents: len(out.Documents)}
	for i := range out.Statuses {
		for _, condition := range out.Statuses[i].Status.Conditions {
			t.policies[policyLabels{condition.Type, string(condition.Status)}]++
		}
	}
	for i := range out.Documents {
		t.bytes += out.Documents[i].Bytes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(t.policies)+len(t.reports)+t.documents == 0 {
		delete(m.namespaces, f.namespace)
		return
	}
	m.namespaces[f.namespace] = t
}
