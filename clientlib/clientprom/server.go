package clientprom

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// Server returns an observer for deadline.WithObserver. Several servers of a
// process may share a registerer: their counts add up.
func Server(r prometheus.Registerer) (deadline.Observer, error) {
	if r == nil {
		return nil, errors.New("clientprom.Server: the registerer is nil")
	}
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "timeouts_server_deadlines_total",
		Help: "Deadlines that requests brought, by what became of them.",
	}, []string{"protocol", "result"})
	var taken prometheus.AlreadyRegisteredError
	switch err := r.Register(counts); {
	case errors.As(err, &taken):
		existing, ok := taken.ExistingCollector.(*prometheus.CounterVec)
		if !ok {
			return nil, fmt.Errorf("clientprom.Server: timeouts_server_deadlines_total is a %T already", taken.ExistingCollector)
		}
		counts = existing
	case err != nil:
		return nil, fmt.Errorf("clientprom.Server: register timeouts_server_deadlines_total: %w", err)
	}
	s := &server{}
	for p, protocol := range protocols {
		for result := range deadline.Results {
			s.counts[p][result] = counts.WithLabelValues(protocol, deadline.Result(result).String())
		}
	}
	return s, nil
}

// protocols are the values of the label; the last is for all others.
var protocols = [...]string{"http", "grpc", other}

// server has a handle for each combination.
type server struct {
	counts [len(protocols)][deadline.Results]prometheus.Counter
}

// IncomingDeadline implements deadline.Observer.
func (s *server) IncomingDeadline(protocol string, result deadline.Result) {
	if int(result) >= deadline.Results {
		return
	}
	p := len(protocols) - 1
	for i, known := range protocols[:p] {
		if protocol == known {
			p = i
		}
	}
	s.counts[p][result].Inc()
}
