package engine

import (
	"context"
	"time"
)

// Rest sleeps until the next attempt is due. Only the caller can end it early,
// since a wait that would pass the deadline is never begun: then ended is true,
// and the call has come to that outcome.
func (c *Call) Rest(ctx context.Context, until time.Time) (o Outcome, a Attribution, ended bool) {
	if d := until.Sub(c.Now()); d > 0 {
		timer := c.engine.Clock().NewTimer(d)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
		}
	}
	if ctx.Err() == nil {
		return Outcome{}, Attribution{}, false
	}
	o, a = CallerEnded(ctx)
	return o, a, true
}
