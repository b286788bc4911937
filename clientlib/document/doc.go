// Package document is the rendered policy file: what the operator writes into
// a ConfigMap and what a client loads. One package renders, parses and
// validates it, so that both ends mean the same.
//
// A document holds effective values: the policies of a namespace are already
// selected, merged and expanded. It is JSON with a schema number and a
// revision, the SHA-256 of its canonical content (see [Revision]).
//
// All functions are pure and safe for concurrent use. A *Document is treated
// as immutable once it was parsed or rendered.
package document
