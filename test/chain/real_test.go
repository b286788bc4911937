package chain

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib/deadline"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback is a network of real sockets.
func loopback(t *testing.T) network {
	addresses := map[string]string{}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(addr)
		if err != nil {
			name = addr
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addresses[name])
	}
	return network{
		listen: func(name string) net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addresses[name] = l.Addr().String()
			return l
		},
		transport: func() *http.Transport { return &http.Transport{DialContext: dial} },
		dialGRPC: grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dial(ctx, "", addr)
		}),
	}
}

// The same chain over sockets, with trust by address. That everybody ended within
// the caller's budget is what the caller sees: an answer of the gate in its place
// and not its own limit.
func TestAChainOfRealServersEndsWithinTheFirstBudget(t *testing.T) {
	const reserve = 300 * time.Millisecond
	s := settings{total: 1500 * time.Millisecond, reserve: reserve, header: "X-Deadline-Ms", trust: deadline.TrustPrefixes(netip.MustParsePrefix("127.0.0.0/8"))}
	chain, began := start(t, loopback(t), s), time.Now()
	code, err := chain.call(t.Context())
	if err != nil || code != http.StatusGatewayTimeout {
		t.Fatalf("the caller got %d, %v, want the gate's 504", code, err)
	}
	chain.mu.Lock()
	gate, orders, stock := chain.has["gate"], chain.has["orders"], chain.has["stock"]
	chain.mu.Unlock()
	if stock <= 0 || stock > orders-reserve || orders > gate-reserve || gate > s.total-reserve {
		t.Errorf("left: gate %s, orders %s, stock %s, want each to be less by the reserve at least", gate, orders, stock)
	}
	inner, middle, outer := chain.event("orders' call"), chain.event("gate's call"), chain.event("caller's call")
	if inner.at.After(middle.at) || middle.at.After(outer.at) {
		t.Errorf("ended: orders' call %s, gate's %s, caller's %s", inner.at.Sub(began), middle.at.Sub(began), outer.at.Sub(began))
	}
	if e := limitOf(t, inner.err); e.Kind != failure.TotalTimeout || e.Source != failure.SourceBudget || e.Elapsed < e.Limit {
		t.Errorf("orders' call: %v", e)
	}
	if text := status.Convert(middle.err).Message(); text != "no answer from stock" {
		t.Errorf("gate's call ended by %v, want the answer of orders", middle.err)
	}
}
