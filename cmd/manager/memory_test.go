package main

import (
	"runtime"
	"testing"
)

func TestTheHeapGrowsByWhatIsInUseWithinBounds(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ live, growth uint64 }{
		{0, 16 * mib}, {5 * mib, 16 * mib}, {16 * mib, 16 * mib}, {40 * mib, 40 * mib},
		{48 * mib, 48 * mib}, {90 * mib, 48 * mib}, {96 * mib, 48 * mib}, {200 * mib, 100 * mib},
	} {
		if got := growth(c.live); got != c.growth {
			t.Errorf("%d MiB in use may grow by %d MiB, want %d", c.live/mib, got/mib, c.growth/mib)
		}
	}
	for _, c := range []struct {
		live    uint64
		percent int
	}{
		{0, 400}, {mib, 400}, {8 * mib, 200}, {40 * mib, 100}, {64 * mib, 75}, {1000 * mib, 50},
	} {
		if got := percent(c.live); got != c.percent {
			t.Errorf("%d MiB in use: %d percent, want %d", c.live/mib, got, c.percent)
		}
	}
}

func TestEachCollectionIsFollowed(t *testing.T) {
	collected := make(chan struct{}, 100)
	afterEachCollection(func() {
		select {
		case collected <- struct{}{}:
		default:
		}
	})
	for range 3 {
		runtime.GC()
		<-collected
	}
	if liveBytes() == 0 {
		t.Error("the runtime does not say what is in use")
	}
}
