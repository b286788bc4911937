package engine

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestRetryBudgetIsBurstAndThenPercent(t *testing.T) {
	var b retryBudget
	l := budgetLimits{percent: 20, burst: 3}
	taken := func() (n int) {
		for b.withdraw(l) {
			n++
		}
		return n
	}
	if n := taken(); n != 3 {
		t.Errorf("%d retries at start, want the burst of 3", n)
	}
	for range 10 {
		b.deposit(l)
	}
	if n := taken(); n != 2 {
		t.Errorf("%d retries after 10 calls, want 20%% of them", n)
	}
	for range 1000 {
		b.deposit(l)
	}
	if n := taken(); n != 3 {
		t.Errorf("%d retries after many calls, want no more than the burst", n)
	}
	b.refund()
	if n := taken(); n != 1 {
		t.Errorf("%d retries after a refund, want 1", n)
	}
}

func TestRetryBudgetFollowsItsLimitsAtOnce(t *testing.T) {
	var b retryBudget
	for range 5 {
		b.withdraw(budgetLimits{percent: 10, burst: 5})
	}
	if b.withdraw(budgetLimits{percent: 10, burst: 4}) {
		t.Error("a smaller burst lets another retry through")
	}
	if !b.withdraw(budgetLimits{percent: 10, burst: 6}) {
		t.Error("a larger burst is not in force")
	}
	if b.withdraw(budgetLimits{burst: 0}) {
		t.Error("a burst of 0 lets a retry through")
	}
}

// A refund neither makes tokens nor loses what others take meanwhile.
func TestRetryBudgetIsExactUnderContention(t *testing.T) {
	var b retryBudget
	l := budgetLimits{percent: 0, burst: 1000}
	var held atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 10000 {
				if b.withdraw(l) {
					held.Add(1)
					if i%2 == 0 {
						held.Add(-1)
						b.refund()
					}
				}
			}
		})
	}
	all.Wait()
	if got := b.spent.Load(); got != held.Load()*token || held.Load() > l.burst {
		t.Errorf("spent %d for %d retries of at most %d", got, held.Load(), l.burst)
	}
	for range 2000 {
		b.refund()
	}
	if got := b.spent.Load(); got != 0 {
		t.Errorf("spent %d after more refunds than retries", got)
	}
}
