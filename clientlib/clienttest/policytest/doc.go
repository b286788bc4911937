// Package policytest has what tests of adapters share: documents from a few rules,
// clients that work under them, and observers that keep all that they are told.
package policytest
