package adaptertest

import (
	"slices"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// scenario is what every adapter does that has the capabilities.
type scenario struct {
	name  string
	takes []capability.Name
	needs []Feature
	run   func(l *lab)
}

// scenarioChecks leaves out what the record declares Absent: that it is so is
// the proofs' business.
func scenarioChecks(a *Adapter) []check {
	var checks []check
	for _, s := range slices.Concat(limitScenarios, deadlineScenarios, retryScenarios, callerScenarios, stateScenarios, goroutineScenarios, lookupScenarios) {
		absent := func(n capability.Name) bool { return a.Record.Level(n) == capability.Absent }
		if _, lacks := a.lacking(s.needs); lacks || slices.ContainsFunc(s.takes, absent) {
			continue
		}
		checks = append(checks, check{s.name, func(t testing.TB, a *Adapter) []string { return study(t, a, s.run) }})
	}
	return checks
}

// want is what a call ought to have come to.
type want struct {
	// ok, or the kind and where it came from.
	ok     bool
	kind   failure.Kind
	field  string
	source failure.Source
	skip   failure.SkipReason
	// requests that the server saw, of all calls of the bench.
	requests int
}

// expect holds a bench's last call to what it ought to have come to.
func (b *bench) expect(o *outcome, w want) {
	b.t.Helper()
	if n := b.requests(); n != w.requests {
		b.findf("%d requests reached the server, want %d (the call: %s)", n, w.requests, o)
	}
	if o.ok != w.ok || !w.ok && o.kind != w.kind {
		b.findf("the call ended with %s, want %s", o, w.wording())
		return
	}
	if e := o.failure; e != nil && (e.Field != w.field || e.Source != w.source) {
		b.findf("%s is attributed to %q of the %s, want %q of the %s", o, e.Field, e.Source, w.field, w.source)
	}
	if skip := b.skip(); skip != w.skip {
		b.findf("%s was not repeated for %q, want %q", o, skip, w.skip)
	}
	if e := o.failure; e != nil && e.Skip != w.skip {
		b.findf("the error of %s says that it was not repeated for %q, want %q", o, e.Skip, w.skip)
	}
}

func (w want) wording() string {
	if w.ok {
		return "success"
	}
	return w.kind.String()
}
