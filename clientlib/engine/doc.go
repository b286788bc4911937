// Package engine enforces the policy in force on calls, whatever library makes
// them. It decides; adapters act.
//
// The order of things in one call is fixed:
//
//	snapshot of the policy -> deadline -> breaker ->
//	[attempt loop: plan, stamp, send, classify, decide] ->
//	breaker signal (one per call) -> telemetry -> body watch
//
// An adapter finds the [Policy] of a call in the [Snapshot] in force, opens a
// [Call], opens a [Scope] for each attempt, classifies what came back into an
// [Outcome] and asks [Call.Decide] what to do.
//
// Snapshots are immutable; swapping one in is a single atomic store, and a call
// keeps the snapshot that it began with. State that outlives a snapshot
// (circuit breaker, retry budget) lives in a [State] per upstream, which reads
// its limits from the policy in hand.
package engine
