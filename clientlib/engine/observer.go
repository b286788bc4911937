package engine

import (
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// Observer is told what happens to calls, for metrics, traces or a log. It is
// asked for a Recorder when a snapshot is built, not call by call, so that it
// can resolve its handles beforehand.
//
// An Observer and its Recorders are called from many goroutines at once and
// must not block.
type Observer interface {
	// Recorder returns the recorder of an upstream's calls on one of its
	// routes; route is empty for calls that no route of the policy matches.
	Recorder(upstream, route string) Recorder
}

// SwapObserver is an Observer that wants to know which snapshot is in force, for
// what it keeps about upstreams.
type SwapObserver interface {
	// Swapped is called after each swap, by one goroutine at a time. Calls that
	// began before still use their recorders.
	Swapped(*Snapshot)
}

// Recorder is told about the calls of one upstream and route. Events are
// values; their strings are shared and must not be changed.
type Recorder interface {
	// CallStarted is told when a call begins, before the breaker is asked.
	CallStarted(adapter string)
	// AttemptDone is told when an attempt ended with headers or an error, after
	// it was decided whether another one follows.
	AttemptDone(AttemptEvent)
	// CallDone is told once for each CallStarted, at the headers of the final
	// response or with the error.
	CallDone(CallEvent)
	// BodyDone is told when the body of a call's response ended.
	BodyDone(BodyEvent)
	// WouldCut is told in mode Shadow which limit ("total", "attempt",
	// "connect", "response_header", "body_idle") would have ended the call, or
	// that it would have been retried ("retry").
	WouldCut(limit string)
	// CircuitChanged is told when the upstream's circuit changes its state.
	CircuitChanged(CircuitState)
}

// FirstTryRecorder is a Recorder that wants to be told of the usual call in one
// event instead of two. It is, where it is an upstream's only recorder.
type FirstTryRecorder interface {
	Recorder
	// FirstTry is told instead of AttemptDone and CallDone of a call whose first
	// attempt succeeded. It returns who is told, instead of BodyDone, how long the
	// body took that was read to its end or closed by the caller; nil for nobody
	// else than BodyDone.
	FirstTry(FirstTryEvent) (bodyTook func(time.Duration))
}

// FirstTryEvent is a call whose first attempt succeeded, and that attempt.
type FirstTryEvent struct {
	Adapter string
	Method  string
	// Route is the policy's route, else the call site's template, else empty.
	Route string
	// Status is the HTTP status or gRPC code of the response.
	Status int
	// Duration of the call, and of its attempt.
	Duration time.Duration
}

// AttemptEvent is one request and what came of it.
type AttemptEvent struct {
	Adapter string
	Method  string
	// Route is the policy's route, else the call site's template, else empty.
	Route string
	// Number is 1 for the first attempt.
	Number int
	// Started is the time since the call began.
	Started  time.Duration
	Duration time.Duration
	// OK says that the attempt succeeded; Kind then means nothing.
	OK   bool
	Kind failure.Kind
	// Status is the HTTP status or gRPC code, -1 for none.
	Status int
	// Left is what is left of the call when the attempt ended; negative where
	// nothing limits the call.
	Left time.Duration
	// Retried says that another attempt follows, Wait after how long.
	Retried bool
	Wait    time.Duration
	// Skip says why no other attempt follows, where one was asked for.
	Skip failure.SkipReason
}

// CallEvent is one logical call.
type CallEvent struct {
	Adapter string
	Method  string
	// Route is the policy's route, else the call site's template, else empty.
	Route    string
	Attempts int
	Duration time.Duration
	OK       bool
	Kind     failure.Kind
	// Status is the HTTP status or gRPC code of the final response, -1 for none.
	Status int
	Source failure.Source
	Skip   failure.SkipReason
}

// BodyEvent is the body of a call's final response.
type BodyEvent struct {
	Adapter string
	Method  string
	Route   string
	Status  int
	// Duration is the time from the headers to the end of the body.
	Duration time.Duration
	// OK says that the body was read to its end or closed by the caller.
	OK   bool
	Kind failure.Kind
}
