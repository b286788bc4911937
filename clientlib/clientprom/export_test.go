package clientprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// NewObserver returns what With adds to a client, for tests of its own.
func NewObserver(r prometheus.Registerer, name string) (engine.Observer, error) {
	return newObserver(r, name)
}
