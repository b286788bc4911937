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
package plan
