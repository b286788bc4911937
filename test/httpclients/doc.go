// Package httpclients holds the tests of client libraries that are handed a
// client of package nethttp, and shows that calls by every adapter fill the same
// metrics. It is a module of its own, so that nothing else depends on all of these
// libraries at once.
package httpclients
