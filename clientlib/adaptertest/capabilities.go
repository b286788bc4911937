package adaptertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// sight is what a proof saw of a capability.
type sight struct {
	grade grade
	// what was seen, for the finding.
	what string
}

type grade uint8

// The grades. missing is what a capability that is Absent shows; astray is no
// state that a record can declare.
const (
	astray grade = iota
	missing
	partial
	full
)

var gradeNames = [...]string{"something that no level describes", "that it is missing", "a part of it", "all of it"}

func sawf(g grade, format string, args ...any) sight { return sight{g, fmt.Sprintf(format, args...)} }

// proof exercises one capability.
type proof struct {
	name  capability.Name
	needs []Feature
	// look exercises the capability. Where the adapter does not have it, calls
	// would last for about as long as hold says; a limit is much shorter.
	look func(l *lab, hold time.Duration) sight
}

const (
	// limit is the usual limit of a policy.
	limit = 60 * time.Millisecond
	// ample is a limit that leaves time for a connection to be made and a request to
	// be seen, also on a machine that is busy.
	ample = 300 * time.Millisecond
	// held is how long a call lasts that nothing cuts, where the record says that
	// it is cut. Whoever tells the truth never waits for it.
	held = 5 * time.Second
	// heldAbsent is the same where the record says that nothing cuts it.
	heldAbsent = 300 * time.Millisecond
)

func capabilityChecks() []check {
	proofs := proofs()
	checks := make([]check, 0, len(proofs))
	for _, p := range proofs {
		checks = append(checks, check{"capability " + string(p.name), p.find})
	}
	return checks
}

// find holds what is seen of a capability to its declared level.
func (p *proof) find(t testing.TB, a *Adapter) []string {
	t.Helper()
	level := a.Record.Level(p.name)
	if feature, lacks := a.lacking(p.needs); lacks {
		if level != capability.Absent {
			return []string{fmt.Sprintf("%s is declared %s, and nothing shows it: the peer lacks %s (%s)", p.name, level, feature, a.Lacks[feature])}
		}
		t.Logf("%s is Absent; there is no %s: %s", p.name, feature, a.Lacks[feature])
		return nil
	}
	return study(t, a, func(l *lab) {
		hold := a.hold
		if level == capability.Absent {
			hold = heldAbsent
		}
		s := p.look(l, hold)
		if want := wanted(l, p.name, level); !slices.Contains(want, s.grade) {
			l.findf("%s is declared %s, and a call shows %s: %s", p.name, level, gradeNames[s.grade], s.what)
		} else if level == capability.Degraded && s.grade == full {
			l.a.Shortfalls[p.name](t)
		}
	})
}

// wanted lists the grades that a level allows.
func wanted(l *lab, name capability.Name, level capability.Level) []grade {
	switch level {
	case capability.Absent:
		return []grade{missing}
	case capability.Degraded:
		if l.a.Shortfalls[name] != nil {
			return []grade{partial, full}
		}
		return []grade{partial}
	default:
		return []grade{full}
	}
}

func proofs() []proof {
	return []proof{
		{capability.TimeoutTotal, []Feature{Waits}, cutsWaiting("total", failure.TotalTimeout)},
		{capability.TimeoutAttempt, []Feature{Waits}, cutsWaiting("attempt", failure.AttemptTimeout)},
		{capability.TimeoutConnect, []Feature{Stalls}, cutsConnecting},
		{capability.TimeoutResponseHeader, []Feature{Waits}, cutsWaiting("responseHeader", failure.ReadTimeout)},
		{capability.TimeoutBodyIdle, []Feature{Drips}, cutsSilentBody},
		{capability.DeadlineHard, []Feature{Waits}, reallyStops},
		{capability.DeadlineCoversBody, []Feature{Drips}, cutsBody},
		{capability.RedirectsShareDeadline, []Feature{Redirects}, sharesDeadline},
		{capability.DeadlineHeader, []Feature{Fails}, tellsDeadline},
		{capability.RetryOwned, []Feature{Fails}, ownsRetries},
		{capability.BodyReplay, []Feature{Fails}, replaysBody},
		{capability.RetryBudget, []Feature{Fails}, keepsRetryBudget},
		{capability.CircuitBreaker, []Feature{Fails}, breaksCircuit},
		{capability.PerCallOptions, []Feature{Fails}, takesOptions},
		{capability.HTTP2, []Feature{OverHTTP2, Waits, Drips}, limitsSharedConnection},
		{capability.Shadow, []Feature{Waits, Fails}, measuresOnly},
	}
}

// sawLimit is what the end of a call says about a limit that should have cut it.
func sawLimit(o *outcome, kind failure.Kind, field string, after time.Duration) sight {
	e := o.failure
	switch {
	case o.ok:
		return sawf(missing, "%s, though %s is %s", o, field, after)
	case e == nil || e.Kind != kind:
		return sawf(astray, "%s, which is not %v", o, kind)
	case e.Field != field || e.Limit != after || e.Source != failure.SourcePolicy:
		return sawf(astray, "%s, attributed to %s of %s of the %s", o, e.Field, e.Limit, e.Source)
	case o.elapsed < after:
		return sawf(astray, "%s, before the limit of %s", o, after)
	default:
		return sawf(full, "%s", o)
	}
}

// cutsWaiting proves a limit on the wait for an answer.
func cutsWaiting(field string, kind failure.Kind) func(*lab, time.Duration) sight {
	return func(l *lab, hold time.Duration) sight {
		b := l.open(fmt.Sprintf(`"timeouts":{%q:"%s"}`, field, limit), Setup{})
		o := b.do(Call{Behaviour: Behaviour{Does: Waits, Delay: hold}})
		return sawLimit(o, kind, "timeouts."+field, limit)
	}
}

func cutsConnecting(l *lab, hold time.Duration) sight {
	b := l.open(fmt.Sprintf(`"timeouts":{"connect":"%s"}`, limit), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Stalls, Delay: hold}})
	if o.kind != failure.ConnectTimeout && o.elapsed >= hold && !o.ok {
		return sawf(missing, "%s", o) // the peer gave up, not the limit
	}
	return sawLimit(o, failure.ConnectTimeout, "timeouts.connect", limit)
}

func cutsSilentBody(l *lab, hold time.Duration) sight {
	b := l.open(fmt.Sprintf(`"timeouts":{"bodyIdle":"%s"}`, limit), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Drips, Pieces: 1, Every: hold}})
	return sawLimit(o, failure.ReadTimeout, "timeouts.bodyIdle", limit)
}

// reallyStops asks the server whether its client has gone. The request has time to
// get there before the limit passes.
func reallyStops(l *lab, hold time.Duration) sight {
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s"}`, ample), Setup{})
	ask := Call{Behaviour: Behaviour{Does: Waits, Delay: ample + hold}}
	o := b.do(ask)
	for b.requests() == 0 && o.kind == failure.TotalTimeout && len(b.calls) < 10 {
		o = b.do(ask) // too busy to get there in time
	}
	if o.kind != failure.TotalTimeout {
		return sawf(missing, "%s", o)
	}
	began := time.Now()
	if eventually(hold, func() bool { return b.peer.Left() > 0 }) {
		return sawf(full, "the server saw its client leave within %s of the end of the call", time.Since(began))
	}
	return sawf(missing, "%s after the end of the call the server was still working for it", hold)
}

func cutsBody(l *lab, hold time.Duration) sight {
	const total = 2 * limit
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s","scope":"Body"}`, total), Setup{})
	pieces := int(hold / (total / 8))
	o := b.do(Call{Behaviour: Behaviour{Does: Drips, Pieces: pieces, Every: total / 8}})
	if !o.ok && len(o.Body) >= pieces {
		return sawf(astray, "%s, with all of the body", o)
	}
	return sawLimit(o, failure.TotalTimeout, "timeouts.total", total)
}

// sharesDeadline follows redirects of which each alone is quick enough.
func sharesDeadline(l *lab, _ time.Duration) sight {
	const total = 240 * time.Millisecond
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s"}`, total), Setup{})
	o := b.do(Call{Behaviour: Behaviour{Does: Redirects, Times: 6, Delay: total / 4}})
	return sawLimit(o, failure.TotalTimeout, "timeouts.total", total)
}

func tellsDeadline(l *lab, _ time.Duration) sight {
	b := l.open(`"timeouts":{"total":"10s"},"deadline":{"header":"`+DeadlineHeader+`"},`+tries(2), Setup{})
	b.do(Call{Behaviour: Behaviour{Does: Fails, Times: 1}})
	told, last := 0, 10*time.Second+1
	seen := b.peer.Seen()
	for _, s := range seen {
		switch {
		case s.Deadline < 0:
		case s.Deadline == 0 || s.Deadline >= last:
			return sawf(astray, "a request says that %s are left, after %s", s.Deadline, last)
		default:
			told, last = told+1, s.Deadline
		}
	}
	switch {
	case told == 0:
		return sawf(missing, "none of %d requests says what is left", len(seen))
	case told < len(seen):
		return sawf(partial, "%d of %d requests say what is left", told, len(seen))
	default:
		return sawf(full, "%d requests say what is left, %s at last", told, last)
	}
}
