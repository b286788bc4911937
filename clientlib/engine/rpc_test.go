package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

func TestAProtocolThatTellsTheDeadlineKeepsTheReserveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := parsed(t, `"timeouts":{"total":"1s"},"deadline":{"reserve":"100ms"}`)
		var c Call
		c.TellsDeadline()
		if err := c.Begin(t.Context(), New(Options{}), p, "grpc", "/shop.Orders/Get"); err != nil {
			t.Fatal(err)
		}
		if got := c.Granted().Sub(c.Start()); got != 900*time.Millisecond {
			t.Errorf("the peer is told %s", got)
		}
		if _, lapsed := c.Lapsed(c.Start().Add(899 * time.Millisecond)); lapsed {
			t.Error("1ms that can be told is taken for nothing")
		}
		a, lapsed := c.Lapsed(c.Start().Add(900 * time.Millisecond))
		if !lapsed || a.Field != "deadline.reserve" || a.Source != failure.SourcePolicy {
			t.Errorf("with nothing to tell: lapsed %t, %+v", lapsed, a)
		}
		c.NoBody()
		c.Settle(Outcome{OK: true}, Attribution{}, Decision{})
	})
}
