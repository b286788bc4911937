package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// What the operator keeps is a cache of policies, and what it throws away are the
// plans and answers of each edit. By Go's own measure a heap of a few megabytes is
// collected with every other edit, and each collection takes a core away from the
// edits that come meanwhile; one of a hundred megabytes may double. So the heap
// may grow by as much as is in use, within bounds, and by half of it in any case.
const (
	minGrowth = 16 << 20
	maxGrowth = 48 << 20
)

// growth is by how many bytes the heap may grow before it is collected, when live
// bytes are in use.
func growth(live uint64) uint64 {
	return max(live/2, min(max(live, minGrowth), maxGrowth))
}

// percent is the growth as the runtime wants to have it. It does not collect a
// heap below 4 MiB x percent/100, so that less in use counts as 4 MiB.
func percent(live uint64) int {
	live = max(live, 4<<20)
	return int(100 * growth(live) / live)
}

// saveMemory sets the growth anew after each collection, for as long as the
// process lives. It leaves alone what GOGC says; GOMEMLIMIT holds besides.
func saveMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	var now int
	afterEachCollection(func() {
		// Setting it stops the world for a moment: not for a trifle.
		if next := percent(liveBytes()); next < now || next > now+now/10 {
			debug.SetGCPercent(next)
			now = next
		}
	})
}

// liveBytes is what the last collection found in use.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// afterEachCollection calls do after each collection of garbage, one call at a
// time.
func afterEachCollection(do func()) {
	// Garbage by the next collection. Its size keeps it out of the blocks that the
	// runtime shares between small objects.
	type garbage struct{ _ [64]byte }
	runtime.AddCleanup(new(garbage), func(do func()) {
		do()
		afterEachCollection(do)
	}, do)
}
