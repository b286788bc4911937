package adaptertest

import (
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

// recordIsComplete looks at the record alone.
func recordIsComplete(t testing.TB, a *Adapter) []string {
	return study(t, a, func(l *lab) {
		if err := a.Record.Validate(); err != nil {
			l.findf("%v", err)
		}
		if a.Record.Library == "" {
			l.findf("the record names no library")
		}
		for name := range a.Shortfalls {
			if level := a.Record.Level(name); level != capability.Degraded {
				l.findf("there is a proof that %s falls short, which is declared %s", name, level)
			}
		}
	})
}
