package adaptertest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// shadowed is a call that passes limits which do nothing but count.
type shadowed struct {
	does  Feature
	rules string
	// counted by the capability that the limit takes; a limit that the record has
	// Absent is nobody's to count.
	counted map[string]capability.Name
}

var shadowedCalls = []shadowed{
	{Waits, `"timeouts":{"total":"%[1]s","attempt":"%[1]s","responseHeader":"%[1]s"}`, map[string]capability.Name{
		"total": capability.TimeoutTotal, "attempt": capability.TimeoutAttempt, "response_header": capability.TimeoutResponseHeader,
	}},
	{Drips, `"timeouts":{"total":"%[1]s","bodyIdle":"%[1]s","scope":"Body"}`, map[string]capability.Name{
		"total": capability.DeadlineCoversBody, "body_idle": capability.TimeoutBodyIdle,
	}},
	{Stalls, `"timeouts":{"connect":"%[1]s"}`, map[string]capability.Name{"connect": capability.TimeoutConnect}},
}

// measuresOnly passes each limit that the record has, and fails once where the policy
// would repeat: nothing of it may happen, and all of it has to be counted, once.
func measuresOnly(l *lab, _ time.Duration) sight {
	b := l.open(`"mode":"Shadow",`+tries(2), Setup{})
	failed := b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1}})
	if failed.ok || b.requests() != 1 {
		return sawf(missing, "%s after %d requests: something was repeated", failed, b.requests())
	}
	counted, missed := b.events.WouldCut(), []string(nil)
	if !slices.Contains(counted, "retry") {
		missed = append(missed, "retry")
	}
	for _, s := range shadowedCalls {
		labels := s.labels(&l.a.Record)
		if _, lacks := l.a.lacking([]Feature{s.does}); lacks || len(labels) == 0 {
			continue
		}
		b := l.open(`"mode":"Shadow",`+fmt.Sprintf(s.rules, limit), Setup{})
		o := b.do(Call{Behaviour: Behaviour{Does: s.does, Delay: 2 * limit, Pieces: 1, Every: 5 * limit}})
		would := b.events.WouldCut()
		counted = append(counted, would...)
		if stalled := s.does == Stalls; !o.ok && !(stalled && o.kind != failure.ConnectTimeout) || !stalled && b.requests() != 1 {
			return sawf(missing, "%s after %d requests: something was cut", o, b.requests())
		}
		for _, label := range labels {
			switch n := count(would, label); {
			case n > 1:
				return sawf(astray, "it was counted %d times that %s would have cut one call to a server that %s", n, label, s.does)
			case n == 0:
				missed = append(missed, fmt.Sprintf("%s (a server that %s)", label, s.does))
			}
		}
	}
	if len(missed) > 0 {
		return sawf(partial, "nothing was cut or repeated, it was counted that %q would have been, and missed of %q", counted, missed)
	}
	return sawf(full, "it was counted that %q would have been", counted)
}

// labels returns those that an adapter has to count.
func (s *shadowed) labels(r *capability.Record) []string {
	labels := slices.Sorted(maps.Keys(s.counted))
	return slices.DeleteFunc(labels, func(l string) bool { return r.Level(s.counted[l]) == capability.Absent })
}

func count(labels []string, label string) (n int) {
	for _, l := range labels {
		if l == label {
			n++
		}
	}
	return n
}
