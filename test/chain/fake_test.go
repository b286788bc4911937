package chain

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// inMemory is a network without addresses, for a bubble of fake time.
func inMemory() network {
	listeners := map[string]*bufconn.Listener{}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(addr)
		if err != nil {
			name = addr
		}
		return listeners[name].DialContext(ctx)
	}
	return network{
		listen: func(name string) net.Listener {
			listeners[name] = bufconn.Listen(1 << 16)
			return listeners[name]
		},
		transport: func() *http.Transport { return &http.Transport{DialContext: dial} },
		dialGRPC: grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dial(ctx, "", addr)
		}),
	}
}

// Each service has less than the one that called it, by the reserve and whatever
// the way took, which is nothing here. The hop that hangs is cut by the innermost
// call; a service that is stuck itself by the one around it, one reserve later.
func TestEndingsComeInsideOutByTheReserve(t *testing.T) {
	const ms = time.Millisecond
	for _, header := range []string{"X-Deadline-Ms", "grpc-timeout", "x-envoy-expected-rq-timeout-ms"} {
		for _, c := range []struct {
			name                 string
			stuck                []string
			orders, gate, caller time.Duration // when their calls end
		}{
			{"stock hangs", nil, 4940 * ms, 4940 * ms, 4940 * ms},
			{"orders is stuck too", []string{"orders"}, 4940 * ms, 4960 * ms, 4960 * ms},
			{"and so is gate", []string{"orders", "gate"}, 4940 * ms, 4960 * ms, 5000 * ms},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := settings{total: 5 * time.Second, reserve: 20 * ms, header: header, trust: deadline.TrustEveryone()}
				chain, began := start(t, inMemory(), s, c.stuck...), time.Now()
				code, err := chain.call(t.Context())
				for what, want := range map[string]time.Duration{"orders' call": c.orders, "gate's call": c.gate, "caller's call": c.caller} {
					if got := chain.event(what).at.Sub(began); got != want {
						t.Errorf("%s, %s: %s ended after %s, want %s", header, c.name, what, got, want)
					}
				}
				for name, want := range map[string]time.Duration{"gate": 4980 * ms, "orders": 4960 * ms, "stock": 4940 * ms} {
					if got := chain.has[name]; got != want {
						t.Errorf("%s, %s: %s had %s, want %s", header, c.name, name, got, want)
					}
				}
				if stuck := len(c.stuck) == 2; stuck != (err != nil) || !stuck && code != http.StatusGatewayTimeout {
					t.Errorf("%s, %s: the caller got %d, %v", header, c.name, code, err)
				}
				if e := limitOf(t, chain.event("orders' call").err); e.Kind != failure.TotalTimeout || e.Source != failure.SourceBudget {
					t.Errorf("%s, %s: orders' call: %v", header, c.name, e)
				}
				synctest.Wait()
				if at := chain.event("stock").at.Sub(began); at != c.orders {
					t.Errorf("%s, %s: stock ended after %s", header, c.name, at)
				}
			})
		}
	}
}

// A budget that the first service set itself, and one that it has of its caller,
// are the same to those behind it. Spent, it reaches nobody.
func TestASpentBudgetGoesNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings{total: 5 * time.Second, reserve: 20 * time.Millisecond, header: "X-Deadline-Ms", trust: deadline.TrustEveryone()}
		chain := start(t, inMemory(), s)
		// Enough for the gate and, less two reserves, nothing for orders.
		code, err := chain.call(deadline.With(t.Context(), 41*time.Millisecond))
		if err != nil || code != http.StatusGatewayTimeout {
			t.Errorf("the caller got %d, %v", code, err)
		}
		if chain.has["gate"] != 21*time.Millisecond || chain.has["orders"] != time.Millisecond {
			t.Errorf("left: %v", chain.has)
		}
		if _, reached := chain.has["stock"]; reached {
			t.Error("stock was called with nothing left")
		}
		if e := limitOf(t, chain.event("orders' call").err); e.Attempts != 0 || e.Source != failure.SourceBudget {
			t.Errorf("orders' call: %v", e)
		}
	})
}

// Without trust a service still obeys its policy, and gRPC its own deadline.
func TestWithoutTrustNoBudgetComesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings{total: time.Second, reserve: 20 * time.Millisecond, header: "X-Deadline-Ms", trust: deadline.TrustPrefixes()}
		chain := start(t, inMemory(), s)
		_, err := chain.call(t.Context())
		if e := limitOf(t, err); e.Source != failure.SourcePolicy {
			t.Errorf("the caller's call: %v", e)
		}
		synctest.Wait()
		for _, name := range []string{"gate", "orders", "stock"} {
			if chain.has[name] != -1 {
				t.Errorf("%s has a budget of %s", name, chain.has[name])
			}
		}
	})
}
