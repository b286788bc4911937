package engine

import "context"

// A Scope is a root where its parent never ends and the library is known to make a
// context of its own right of the scope, as a transport does. The standard
// library's root would keep a book of that one child, which takes a map. This one
// keeps a function, by which contexts take leave of those that have an AfterFunc.
//
// Where somebody puts values into a context before he makes one of it that can be
// cancelled, the standard library starts a goroutine that waits for the root. So
// adapters ask for a root only where nobody does by himself; a protocol that a program
// registered with a transport may, and pays that goroutine.

// What a root has for the first who calls AfterFunc.
const (
	rootFree uint32 = iota
	rootTaken
	rootKept // after
	rootDropped
	rootEnded
)

// AfterFunc has f called when the scope ends, unless stop is called before: what
// [context.AfterFunc] asks of contexts that have such a method. It is for contexts
// that are made of this one; f must not block.
func (s *Scope) AfterFunc(f func()) (stop func() bool) {
	switch {
	case !s.limited:
		return context.AfterFunc(s.Context, f)
	case s.own.isRoot() && s.own.keep(f):
		return s.own.drop
	default:
		return context.AfterFunc(s.context(), f)
	}
}

func (o *ownContext) isRoot() bool { return o.done != nil }

// keep keeps the function of the first who asks, and calls it where the root ends at
// this moment.
func (o *ownContext) keep(f func()) bool {
	if !o.root.CompareAndSwap(rootFree, rootTaken) {
		return false
	}
	o.after = f
	o.kept()
	return true
}

// kept has the function called that is kept, later or, where the root ended
// meanwhile, now: by somebody else, since the caller may hold what it needs.
func (o *ownContext) kept() {
	if !o.root.CompareAndSwap(rootTaken, rootKept) {
		go o.after()
	}
}

// drop drops the function that is kept; false when it was called, or dropped before.
func (o *ownContext) drop() bool { return o.root.CompareAndSwap(rootKept, rootDropped) }

// endRoot wakes those who wait for the root.
func (o *ownContext) endRoot() {
	before := o.root.Swap(rootEnded)
	if before == rootEnded {
		return
	}
	close(o.done)
	if before == rootKept {
		o.after()
	}
}
