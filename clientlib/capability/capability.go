// Package capability says what each adapter can enforce, readable without
// importing the adapter's library, and assesses a document against it.
//
// Records and assessments are plain values. All functions are safe for
// concurrent use.
package capability

import (
	"fmt"
	"slices"
	"sync"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Level says how well an adapter supports a capability. The zero value is
// Absent.
type Level uint8

// The levels, from worst to best.
const (
	// Absent: the adapter cannot do it.
	Absent Level = iota
	// Degraded: a weaker form, which the note describes.
	Degraded
	// Emulated: the engine adds it on top of the library.
	Emulated
	// Native: the library does it.
	Native
)

var levelNames = [...]string{"Absent", "Degraded", "Emulated", "Native"}

// String returns the API spelling, such as "Emulated".
func (l Level) String() string {
	if int(l) >= len(levelNames) {
		return levelNames[Absent]
	}
	return levelNames[l]
}

// MarshalText writes the API spelling.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the API spelling and refuses everything else.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a capability level", text)
	}
	*l = Level(i)
	return nil
}

// Name is a capability, in the spelling of the API.
type Name string

// The capabilities.
const (
	// TimeoutTotal: timeouts.total ends the call.
	TimeoutTotal Name = "TimeoutTotal"
	// TimeoutAttempt: timeouts.attempt ends one try.
	TimeoutAttempt Name = "TimeoutAttempt"
	// TimeoutConnect: timeouts.connect bounds DNS, dial and TLS handshake.
	TimeoutConnect Name = "TimeoutConnect"
	// TimeoutResponseHeader: timeouts.responseHeader bounds the wait for the
	// first byte of the response.
	TimeoutResponseHeader Name = "TimeoutResponseHeader"
	// TimeoutBodyIdle: timeouts.bodyIdle bounds the gap between two reads.
	TimeoutBodyIdle Name = "TimeoutBodyIdle"
	// DeadlineHard: when a limit passes the work is really stopped.
	DeadlineHard Name = "DeadlineHard"
	// DeadlineCoversBody: the total ends with the response body.
	DeadlineCoversBody Name = "DeadlineCoversBody"
	// RedirectsShareDeadline: all hops of a redirect have one total.
	RedirectsShareDeadline Name = "RedirectsShareDeadline"
	// DeadlineHeader: what is left travels with the request.
	DeadlineHeader Name = "DeadlineHeader"
	// RetryOwned: the engine alone decides what is repeated.
	RetryOwned Name = "RetryOwned"
	// BodyReplay: a request body can be sent again.
	BodyReplay Name = "BodyReplay"
	// RetryBudget: retry.budget bounds retry traffic.
	RetryBudget Name = "RetryBudget"
	// CircuitBreaker: circuitBreaker is in force.
	CircuitBreaker Name = "CircuitBreaker"
	// PerCallOptions: a call site may name its route and vouch for repetition.
	PerCallOptions Name = "PerCallOptions"
	// HTTP2: limits hold for calls that share an HTTP/2 connection.
	HTTP2 Name = "HTTP2"
	// Shadow: mode Shadow measures without changing anything.
	Shadow Name = "Shadow"
)

// Names returns every capability in a fixed order.
func Names() []Name {
	return []Name{
		TimeoutTotal, TimeoutAttempt, TimeoutConnect, TimeoutResponseHeader,
		TimeoutBodyIdle, DeadlineHard, DeadlineCoversBody,
		RedirectsShareDeadline, DeadlineHeader, RetryOwned, BodyReplay,
		RetryBudget, CircuitBreaker, PerCallOptions, HTTP2, Shadow,
	}
}

// Support is the level of one capability, with a note where the level alone
// does not say it all.
type Support struct {
	Level Level  `json:"level"`
	Note  string `json:"note,omitempty"`
}

// Record is what one adapter declares about itself. A capability that is not
// in Support is Absent. Treat a Record as frozen once it was registered.
type Record struct {
	// Adapter is the metric label "adapter" and the name in reports.
	Adapter string `json:"adapter"`
	// Library is the import path of the client library.
	Library string `json:"library"`
	// Support by capability.
	Support map[Name]Support `json:"support"`
	// Emits are the failure kinds that the adapter can tell apart.
	Emits failure.Set `json:"-"`
	// Collapse maps a kind that the adapter never emits to the coarser kind
	// that it emits in its place. A policy that asks for the finer kind is
	// served by the coarser one.
	Collapse map[failure.Kind]failure.Kind `json:"collapse,omitempty"`
}

// Level returns the level of one capability.
func (r *Record) Level(name Name) Level { return r.Support[name].Level }

// Reaches reports whether an attempt can end with the kind, directly or
// through a collapse.
func (r *Record) Reaches(kind failure.Kind) bool {
	if r.Emits.Has(kind) {
		return true
	}
	coarser, ok := r.Collapse[kind]
	return ok && r.Emits.Has(coarser)
}

// Covered returns the kinds that collapse into a coarser one. An adapter that has
// any puts them into the engine.Outcome beside the kind that it tells.
func (r *Record) Covered(coarser failure.Kind) failure.Set {
	var finer failure.Set
	for kind, into := range r.Collapse {
		if into == coarser {
			finer |= failure.NewSet(kind)
		}
	}
	return finer
}

// Validate returns an error that names what is missing in the record or contradicts
// itself; nil for none.
func (r *Record) Validate() error {
	if r.Adapter == "" {
		return fmt.Errorf("capability record without an adapter name")
	}
	for name, s := range r.Support {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("capability record of %s: %q is not a capability", r.Adapter, name)
		}
		if s.Level == Degraded && s.Note == "" {
			return fmt.Errorf("capability record of %s: %s is Degraded without a note that says how", r.Adapter, name)
		}
	}
	for finer, coarser := range r.Collapse {
		if r.Emits.Has(finer) || !r.Emits.Has(coarser) {
			return fmt.Errorf("capability record of %s: %s cannot collapse into %s", r.Adapter, finer, coarser)
		}
	}
	return nil
}

var registry struct {
	sync.RWMutex
	records map[string]Record
}

// Register adds the record of an adapter that does not ship with this module,
// for [Matrix]. It refuses a record that is incomplete or contradicts itself,
// and a name that is taken.
func Register(r Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	registry.Lock()
	defer registry.Unlock()
	for _, shipped := range shippedRecords() {
		if shipped.Adapter == r.Adapter {
			return fmt.Errorf("capability record of %s: the name belongs to a shipped adapter", r.Adapter)
		}
	}
	if _, taken := registry.records[r.Adapter]; taken {
		return fmt.Errorf("capability record of %s: the name is taken", r.Adapter)
	}
	if registry.records == nil {
		registry.records = map[string]Record{}
	}
	registry.records[r.Adapter] = r
	return nil
}

// Matrix returns the records of all adapters, those that ship with this module
// first, the registered ones after them by name.
func Matrix() []Record {
	records := shippedRecords()
	registry.RLock()
	defer registry.RUnlock()
	names := make([]string, 0, len(registry.records))
	for name := range registry.records {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		records = append(records, registry.records[name])
	}
	return records
}

func shippedRecords() []Record { return []Record{NetHTTP(), GRPC(), FastHTTP()} }
