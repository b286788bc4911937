package engine

import "sync/atomic"

// budgetLimits are the limits of a retry budget, read from the policy in hand.
type budgetLimits struct{ percent, burst int64 }

// token is the unit of the bucket: hundredths, so that a call adds percent units.
const token = 100

// retryBudget is a token bucket without a lock: each call adds percent/100 of a
// token, each retry takes one. The zero value is full: it counts what was
// spent, so that a new burst holds at once.
type retryBudget struct{ spent atomic.Int64 }

// full says that there is nothing to credit, as it is in the usual case.
func (b *retryBudget) full() bool { return b.spent.Load() <= 0 }

// deposit credits one call.
func (b *retryBudget) deposit(l budgetLimits) {
	for {
		spent := b.spent.Load()
		if spent <= 0 {
			return
		}
		if b.spent.CompareAndSwap(spent, max(0, spent-l.percent)) {
			return
		}
	}
}

// withdraw takes a token for a retry; false when there is none.
func (b *retryBudget) withdraw(l budgetLimits) bool {
	for {
		spent := b.spent.Load()
		if spent+token > l.burst*token {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+token) {
			return true
		}
	}
}

// refund gives back the token of a retry that was never sent.
func (b *retryBudget) refund() {
	for {
		spent := b.spent.Load()
		if b.spent.CompareAndSwap(spent, max(0, spent-token)) {
			return
		}
	}
}
