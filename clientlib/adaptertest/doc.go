// Package adaptertest is the parity battery: one table of scenarios that every
// adapter goes through, and the proof that what its capability record says is
// true.
//
// An adapter hands [Run] an [Adapter]: its record, and how to make a [Peer], a
// server that misbehaves in the adapter's own protocol together with a client
// that calls it through the adapter. The battery makes calls under policies of
// its own, and looks at what the server saw, what the caller got and what the
// observers were told:
//
//   - Each capability that the record declares Native, Emulated or Degraded is
//     exercised; one that it declares Absent is shown to be absent.
//   - Each failure kind that the record emits is produced, each other one is
//     shown not to be, or to come out as the kind that it collapses into.
//   - Limits, repetitions, Retry-After, retry budget, circuit breaker, deadlines
//     and events are those of every other adapter.
//   - Calls leave neither goroutine nor timer nor a place in the circuit behind,
//     however they end: cut, left by their caller, broken off, by a panic.
//
// Native and Emulated are not told apart, since they differ in who does the work
// and not in what is seen of it.
//
// Times are real, since servers are. No check asks that something be quick: a
// limit is known by the error that names it and by the least time that it takes.
// [HTTPServer] is the server of all adapters that speak HTTP.
package adaptertest
