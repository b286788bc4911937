package controllers

import (
	"sync"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// memos keep the planner's memo of each namespace. The zero value is ready. Safe
// for concurrent use, as long as a namespace is reconciled by one at a time.
type memos struct {
	mu         sync.Mutex
	namespaces map[string]*plan.Memo
}

// of returns the memo of the namespace; nil when there is nothing to remember.
func (m *memos) of(f *facts) *plan.Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(f.policies) == 0 {
		delete(m.namespaces, f.namespace)
		return nil
	}
	memo := m.namespaces[f.namespace]
	if memo == nil {
		memo = &plan.Memo{}
		if m.namespaces == nil {
			m.namespaces = map[string]*plan.Memo{}
		}
		m.namespaces[f.namespace] = memo
	}
	return memo
}
