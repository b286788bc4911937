package controllers

import (
	"sync"
	"time"
)

// backlog knows which namespaces wait for a worker because something changed, so
// that documents come before statuses across namespaces: clients wait for the one,
// people for the other. Of a thousand edits at once, and of ten thousand policies
// that nothing was rendered for yet, half of the documents would otherwise wait
// until the statuses of the first half are written.
//
// The zero value is ready. Safe for concurrent use.
type backlog struct {
	mu      sync.Mutex
	waiting map[string]struct{}
	// working are the namespaces that a worker has, and whether something changed
	// since: then they wait once it is done. Until then nobody can do anything for
	// them, so that one that takes long holds up no statuses.
	working map[string]bool
	// postponed says since when the statuses of a namespace wait.
	postponed map[string]time.Time
}

const (
	// postponedRetry is how soon statuses that wait are looked at again.
	postponedRetry = 100 * time.Millisecond
	// maxPostponed is how long they wait at most: where there is always another
	// document to be written, somebody still wants to know of the last one.
	maxPostponed = 30 * time.Second
)

// add notes that a namespace is put into the queue.
func (b *backlog) add(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, has := b.working[namespace]; has {
		b.working[namespace] = true
		return
	}
	b.wait(namespace)
}

func (b *backlog) wait(namespace string) {
	if b.waiting == nil {
		b.waiting = map[string]struct{}{}
	}
	b.waiting[namespace] = struct{}{}
}

// begin notes that a worker has a namespace.
func (b *backlog) begin(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.working == nil {
		b.working = map[string]bool{}
	}
	b.working[namespace] = false
	delete(b.waiting, namespace)
}

// end notes that the worker is done with it.
func (b *backlog) end(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.working[namespace] {
		b.wait(namespace)
	}
	delete(b.working, namespace)
}

// postpone reports whether the statuses of a namespace should wait, since another
// one waits for its documents, or the namespace itself changed again.
func (b *backlog) postpone(namespace string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, before := b.postponed[namespace]
	if len(b.waiting) == 0 && !b.working[namespace] || before && now.Sub(since) >= maxPostponed {
		return false
	}
	if b.postponed == nil {
		b.postponed = map[string]time.Time{}
	}
	if !before {
		b.postponed[namespace] = now
	}
	return true
}

// isPostponed reports whether the statuses of a namespace wait.
func (b *backlog) isPostponed(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.postponed[namespace]
	return waits
}

// settle notes that nothing of a namespace waits any more.
func (b *backlog) settle(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.postponed, namespace)
}
