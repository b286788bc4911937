package main

import (
	"context"
	"fmt"
	"time"
)

// trafficInterval is between the end of a call and the next one.
const trafficInterval = 20 * time.Millisecond

// traffic is ordinary calls of checkout, one after the other, in the background.
type traffic struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the fields below do not change any more
	calls  int
	failed int
	first  string // failure, in words
}

// startTraffic has checkout call orders until stop or the end of ctx.
func (d *demo) startTraffic(ctx context.Context) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		tick := time.NewTicker(trafficInterval)
		defer tick.Stop()
		for {
			var r result
			err := fetchJSON(ctx, d.shop.callURL("/ok"), &r)
			if ctx.Err() != nil {
				return // this call was not the shop's to answer
			}
			t.count(r, err)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return t
}

func (t *traffic) count(r result, err error) {
	t.calls++
	if err == nil && r.Outcome == "success" && r.Status == 200 {
		return
	}
	t.failed++
	if t.first == "" {
		t.first = fmt.Sprintf(" (%s: %s, %v)", r.Outcome, r.Error, err)
	}
}

// stop ends the traffic; the numbers can be read then.
func (t *traffic) stop() {
	t.cancel()
	<-t.done
}
