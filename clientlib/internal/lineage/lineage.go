// Package lineage tells which of two documents is the newer one, where that
// can be told at all.
package lineage

import "github.com/timeout-operator/timeout-operator/clientlib/document"

// Compare tells a newer document (1) from an older one (-1) by the policies that
// both were made from: the generation of one object, which its uid names, only
// grows, since a rollback is a change too and what was made anew has another uid.
// It is 0 when that does not tell: where no policy is in both, where nothing but
// other things changed that documents are made from, and where the generations
// contradict each other.
//
// A cluster that was restored from a backup goes back to generations that it had
// before. So an order must never overrule a source that has the say and is well
// for good; it only tells who may stand in for it.
func Compare(a, b *document.Document) int {
	before := map[string]int64{}
	for _, p := range b.Policies {
		if p.UID != "" {
			before[p.UID] = p.Generation
		}
	}
	newer, older := false, false
	for _, p := range a.Policies {
		if g, ok := before[p.UID]; ok {
			newer = newer || p.Generation > g
			older = older || p.Generation < g
		}
	}
	switch {
	case newer && !older:
		return 1
	case older && !newer:
		return -1
	default:
		return 0
	}
}
