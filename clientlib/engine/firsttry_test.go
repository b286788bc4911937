package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clienttest"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// told writes down which events came.
type told struct{ events []string }

func (t *told) Recorder(string, string) Recorder { return t }
func (t *told) CallStarted(string)               { t.events = append(t.events, "started") }
func (t *told) AttemptDone(AttemptEvent)         { t.events = append(t.events, "attempt") }
func (t *told) CallDone(CallEvent)               { t.events = append(t.events, "call") }
func (t *told) BodyDone(BodyEvent)               { t.events = append(t.events, "body") }
func (t *told) WouldCut(string)                  {}
func (t *told) CircuitChanged(CircuitState)      {}

// quickly also wants the usual call in one event.
type quickly struct{ told }

func (q *quickly) Recorder(string, string) Recorder { return q }
func (q *quickly) FirstTry(FirstTryEvent) func(time.Duration) {
	q.events = append(q.events, "first try")
	return func(time.Duration) { q.events = append(q.events, "body took") }
}

func TestAFirstTryIsOneEventForThoseWhoWantIt(t *testing.T) {
	failed := Outcome{Kind: failure.Disconnected, Status: NoStatus, Repeatable: true, Replayable: true}
	plain, quick := &told{}, &quickly{}
	for _, c := range []struct {
		name      string
		observers []Observer
		fail      bool
		events    *[]string
		want      []string
	}{
		{"plain", []Observer{plain}, false, &plain.events, []string{"started", "attempt", "call", "body", "body"}},
		{"quick", []Observer{quick}, false, &quick.events, []string{"started", "first try", "body", "body took"}},
		{"quick, second try", []Observer{quick}, true, &quick.events, []string{"started", "attempt", "attempt", "call", "body", "body"}},
		{"quick beside plain", []Observer{quick, plain}, false, &quick.events, []string{"started", "attempt", "call", "body", "body"}},
	} {
		inBubble(t, func(t *testing.T, _ *Engine, _ *clienttest.Timers) {
			*c.events = nil
			call := mustBegin(t, t.Context(), New(Options{Observers: c.observers}), `"retry":{"maxAttempts":2},"circuitBreaker":{}`)
			call.BeginAttempt()
			if c.fail {
				call.Decide(failed)
				call.BeginAttempt()
			}
			call.Succeed(200)
			call.BodyDone(Outcome{Kind: failure.BodyError}, 0)
			call.BodyDone(Outcome{OK: true}, 0)
			if !slices.Equal(*c.events, c.want) {
				t.Errorf("%s: told %v, want %v", c.name, *c.events, c.want)
			}
			if call.Decided().Before(call.Start()) {
				t.Error("not decided")
			}
		})
	}
}
