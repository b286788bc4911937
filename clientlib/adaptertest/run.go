package adaptertest

import (
	"slices"
	"testing"
)

// Run holds an adapter to its record and to what every adapter does, in subtests
// that run in parallel. What a subtest finds wrong it has found three times.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	if a.hold == 0 {
		a.hold = held
	}
	for _, c := range checks(&a) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, finding := range c.confirm(t, &a) {
				t.Error(finding)
			}
		})
	}
}

// check is one subtest. What it finds is returned in place of being reported, so
// that the battery itself can be tested.
type check struct {
	name string
	find func(t testing.TB, a *Adapter) []string
}

// looks is how often a check has to find something.
const looks = 3

// confirm runs the check again when it finds something, and returns what it found
// the last time. The limits of the battery pass in real time, so that a machine that
// is busy with something else makes faults of its own; those of an adapter come again.
func (c check) confirm(t testing.TB, a *Adapter) []string {
	t.Helper()
	findings := c.find(t, a)
	for range looks - 1 {
		if len(findings) == 0 {
			break
		}
		t.Logf("looking again: %q", findings)
		findings = c.find(t, a)
	}
	return findings
}

func checks(a *Adapter) []check {
	all := []check{{"the record is complete", recordIsComplete}}
	all = append(all, capabilityChecks()...)
	all = append(all, kindChecks()...)
	return append(all, scenarioChecks(a)...)
}

// lacking returns the first of some features that the adapter does not have.
func (a *Adapter) lacking(features []Feature) (Feature, bool) {
	i := slices.IndexFunc(features, func(f Feature) bool { _, lacks := a.Lacks[f]; return lacks })
	if i < 0 {
		return "", false
	}
	return features[i], true
}
