package clientprom

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the collectors of one registerer, shared by all clients that were
// given it. They are registered as one, so that a second client finds those of
// the first.
type metrics struct {
	requests, attempts             vector[*counter]
	requestTime, bodyTime, tryTime vector[*histogram]
	inflight                       vector[*gauge]
	skipped, wouldCut, reloads     *prometheus.CounterVec
	refused                        *prometheus.CounterVec
	circuit, info, age, checkAge   *prometheus.Desc

	mu      sync.Mutex
	clients map[string]*client
}

func newMetrics() *metrics {
	shape := []string{"client", "adapter", "upstream", "route", "method", "outcome"}
	counted := []string{"client", "adapter", "upstream", "route", "method", "status", "outcome"}
	return &metrics{
		requests:    newCounters("requests_total", "Calls that ended, once each, whatever the number of attempts.", counted...),
		attempts:    newCounters("attempts_total", "Requests sent, the first of each call included.", counted...),
		requestTime: newHistograms("request_duration_seconds", "Time of a call until the headers of its final response, or its error.", shape...),
		bodyTime:    newHistograms("body_duration_seconds", "Time from the headers of the final response to the end of its body.", shape...),
		tryTime:     newHistograms("attempt_duration_seconds", "Time of one attempt until its headers, or its error.", shape...),
		inflight:    newGauges("inflight", "Calls that wait for the headers of their final response.", "client", "adapter", "upstream"),
		skipped:     counters("retry_skipped_total", "Failed attempts that asked for another one and did not get it.", "client", "upstream", "reason"),
		wouldCut:    counters("would_cut_total", "What mode Shadow left alone: calls that a limit would have cut, or that would have been retried.", "client", "upstream", "limit"),
		refused:     counters("refused_total", "Calls that were refused before a request was sent, since no time was left; by whose limit.", "client", "upstream", "source"),
		reloads:     counters("policy_reloads_total", "Changes of the policy document.", "client", "result"),
		circuit:     desc("circuit_state", "State of the circuit breaker: 0 closed, 1 half-open, 2 open.", "client", "upstream"),
		info:        desc("policy_info", "Revision of the document in force, and what the client lives on.", "client", "revision", "state"),
		age:         desc("policy_age_seconds", "Time since the document in force came into force.", "client"),
		checkAge:    desc("policy_check_age_seconds", "Time since the source last made sure that no newer document is there.", "client"),
		clients:     map[string]*client{},
	}
}

func name(suffix string) string { return "timeouts_client_" + suffix }

func counters(suffix, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(suffix), Help: help}, labels)
}

func desc(suffix, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name(suffix), help, labels, nil)
}

// register returns the metrics of a registerer: new ones, or those that another
// client registered.
func register(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return nil, errors.New("clientprom.With: the registerer is nil")
	}
	m := newMetrics()
	err := r.Register(m)
	if err == nil {
		return m, nil
	}
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		if existing, ok := taken.ExistingCollector.(*metrics); ok {
			return existing, nil
		}
	}
	return nil, fmt.Errorf("clientprom.With: register the metrics timeouts_client_*: %w", err)
}

func (m *metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.attempts, m.requestTime, m.bodyTime, m.tryTime,
		m.inflight, m.skipped, m.wouldCut, m.refused, m.reloads,
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(out)
	}
	out <- m.circuit
	out <- m.info
	out <- m.age
	out <- m.checkAge
}

// Collect implements prometheus.Collector. What is a state and not a count is
// asked for here, so that nothing outdated can be left behind.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clients {
		c.collect(out)
	}
}
