// Package httpclients holds the tests of client libraries that are handed a
// client of package nethttp.
package httpclients
