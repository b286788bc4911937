package clientprom

import (
	"maps"
	"sync/atomic"
)

// table is a map that is read without a lock and copied to be written: it is
// written a few times in the life of a process. The zero value is empty.
type table[K comparable, V any] struct {
	entries atomic.Pointer[entries[K, V]]
}

// entries are read only. Those that came up first, which most calls are, are
// found by comparing, without the price of a hash.
type entries[K comparable, V any] struct {
	first []entry[K, V]
	all   map[K]V
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// compared is how many entries are found by comparing.
const compared = 4

func (t *table[K, V]) find(key K) (V, bool) {
	e := t.entries.Load()
	if e == nil {
		var zero V
		return zero, false
	}
	for i := range e.first {
		if e.first[i].key == key {
			return e.first[i].value, true
		}
	}
	if len(e.all) == len(e.first) {
		var zero V
		return zero, false
	}
	v, ok := e.all[key]
	return v, ok
}

// add adds an entry; only one goroutine may at a time.
func (t *table[K, V]) add(key K, v V) {
	next := &entries[K, V]{all: map[K]V{}}
	if e := t.entries.Load(); e != nil {
		next.first, next.all = e.first, maps.Clone(e.all)
	}
	next.all[key] = v
	if len(next.first) < compared {
		next.first = append(next.first[:len(next.first):len(next.first)], entry[K, V]{key, v})
	}
	t.entries.Store(next)
}

// fill adds an entry. A recorder that is retired adds none, so that the last
// calls under an old document leave no series behind.
func fill[K comparable, V any](r *recorder, t *table[K, V], key K, build func() V) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := t.find(key); ok || r.retired {
		return v, ok
	}
	v := build()
	t.add(key, v)
	return v, true
}
