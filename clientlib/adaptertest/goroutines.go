package adaptertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/timeout-operator/timeout-operator/clientlib/capability"
)

var goroutineScenarios = []scenario{
	{"calls leave no goroutine behind, however they end", []capability.Name{capability.TimeoutTotal}, []Feature{Waits}, leavesNothing},
}

// goroutineLabel marks the goroutines that calls start, and those that these start.
const goroutineLabel = "adaptertest"

var lastLabel atomic.Int64

// leavesNothing makes calls that end in every way, in rounds. Connections that are
// kept have goroutines, as many after the last round as after the first ones.
func leavesNothing(l *lab) {
	const warmUp, rounds, slack = 2, 8, 4
	b := l.open(fmt.Sprintf(`"timeouts":{"total":"%s","scope":"Body"},%s`, limit/2, tries(2)), Setup{})
	label := strconv.FormatInt(lastLabel.Add(1), 10)
	before := 0
	pprof.Do(context.Background(), pprof.Labels(goroutineLabel, label), func(context.Context) {
		for round := range warmUp + rounds {
			if round == warmUp {
				before, _ = goroutinesOf(label)
			}
			b.everyWay()
		}
	})
	var after int
	var most string
	if !eventually(l.a.hold, func() bool { after, most = goroutinesOf(label); return after <= before+slack }) {
		l.findf("%d rounds of calls left %d goroutines behind that they started; of these most at\n%s", rounds, after-before, most)
	}
}

// everyWay makes a call that succeeds, and others that end in other ways.
func (b *bench) everyWay() {
	for _, does := range []Feature{Answers, Fails, Waits, Drips, Stops, Resets, Cuts} {
		if _, lacks := b.a.lacking([]Feature{does}); lacks {
			continue
		}
		b.do(Call{Behaviour: Behaviour{Does: does, Delay: b.a.hold, Pieces: 2, Every: limit}})
	}
	if _, lacks := b.a.lacking([]Feature{CallerContext}); lacks {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit/4)
	defer cancel()
	b.doIn(ctx, Call{Behaviour: Behaviour{Does: Waits, Delay: b.a.hold}})
}

// goroutinesOf returns how many goroutines have a label, and the stack that most of
// them share.
func goroutinesOf(label string) (n int, most string) {
	var profile bytes.Buffer
	// A bytes.Buffer returns no error.
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	mark, at := fmt.Sprintf("%q:%q", goroutineLabel, label), 0
	for _, group := range strings.Split(profile.String(), "\n\n") {
		if !strings.Contains(group, mark) {
			continue
		}
		count := sizeOf(group)
		n += count
		if count > at {
			at, most = count, group
		}
	}
	return n, most
}

// sizeOf reads the line "count @ address…" of a group of goroutines.
func sizeOf(group string) int {
	for line := range strings.Lines(group) {
		if count, _, found := strings.Cut(line, " @ "); found {
			n, _ := strconv.Atoi(count)
			return n
		}
	}
	return 0
}
