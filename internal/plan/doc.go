// Package plan decides, for one namespace, what the operator writes and says:
// from policies, services, the documents that exist and the reports of clients
// to the documents that should exist, the status of every policy, and events.
//
// It is pure: no client, no context, no log, no clock, no randomness. The same
// input in any order gives the same bytes. One bad policy never stops another.
// The controllers act on the result, the command line shows it.
//
// # The rule of merging
//
// For a client C, a host pattern H and a route match M the effective rules are
// a fold over the policies in order: first those without spec.clients, then
// those that name C; at one level the policy whose pattern that covers H is
// less specific comes first. Each policy adds what it alone says for (H, M):
// its defaults, then its most specific upstream that covers H, then the most
// specific route of that upstream that covers M. Later values win field by
// field, lists are replaced whole, and every value keeps its origin. Only
// policies with an upstream that covers H take part.
//
// Where two policies of one level list the same pattern, the older object (by
// creationTimestamp, then name) keeps it and the upstream of the other is left
// out.
//
// A document lists the patterns and matches of all policies that take part,
// closed under intersection. So the most specific entry that matches a request
// says what the fold says, and a policy that is added never changes a field
// that it does not set.
//
// A scope of Body that no route says itself is written as absent, since that is
// its default and readers take the word in a route as the wish that streams be
// cut too; its provenance is written.
//
// # Bounds
//
// What policies ask for can multiply: hosts for any port under wildcards for many
// ports, routes of policies that meet at a host. A merge ends where there is more
// than fits (32,768 patterns, 256 routes of an upstream, far more than
// Options.MaxDocumentBytes), and goes on with the oldest policies that do fit; the
// others have Programmed=False/DocumentTooLarge. So a plan takes time and memory
// for the policies that it is given and for documents that can be written.
//
// # Documents that no policy needs any more
//
// Where no policy is left for a document, a tombstone takes its place, and never
// its deletion: a missing file does not take a policy away from a client. A
// tombstone goes ten minutes after it was written (Options.TombstoneFor), unless
// a live pod reports a client that reads it: the client it is for, or for the
// namespace's document any client without one of its own. A document whose only
// policies are invalid or too large is kept as it is.
//
// # Counting clients
//
// A client of a live pod has applied a policy when it has the very revision in
// force that its document has now, or says so of this UID and generation;
// generations are compared for equality only. It rejected the policy when it
// says so. Otherwise it is pending until Options.StaleAfter (180s) after the
// document was written or its pod first reported, whichever is later, then
// stale; a client that cannot be updated (delivery Static) is stale at once, and
// one whose library tells neither revision nor policies is unknown.
//
// The operator counts as reports come and go, by what they say (Census), so that
// a plan costs as much as there are different statements. The command line hands
// in the reports themselves and gets the same numbers with the pods behind them.
//
// Acknowledged is False as long as a client rejects, Unknown while one is
// pending, and becomes True when what is stale is at most one client or
// Options.StalePercent (10) of a hundred, and somebody applied. Pods that came
// when the time for the document was over, and have not followed, count as stale
// for this. Once True it
// stays True for the generation, while reports are taken and a document holds
// the policy. Capable follows the clients; where none reports, a True of the
// generation stays.
package plan
