package clienttest

import (
	"strings"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
)

// Deadlines is a deadline.Observer that keeps what became of incoming deadlines, as
// "protocol:result". The zero value is ready to use; it is safe for concurrent use.
type Deadlines struct {
	mu   sync.Mutex
	told []string
}

// IncomingDeadline implements deadline.Observer.
func (d *Deadlines) IncomingDeadline(protocol string, r deadline.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, protocol+":"+r.String())
}

// Take returns what was told since the last time, with spaces in between.
func (d *Deadlines) Take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.told = nil }()
	return strings.Join(d.told, " ")
}
