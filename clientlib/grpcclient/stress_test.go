package grpcclient_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/timeout-operator/timeout-operator/clientlib/grpcclient"
)

// Many callers while the policy changes all the time. Each request says, by the
// name of its deadline header, which policy it was made under; how often a call
// is tried says so too.
func TestCallersNeverNoticeThatThePolicyIsSwapped(t *testing.T) {
	var mu sync.Mutex
	calls := map[string][]string{}
	conn := loopbackWith(t, func(s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		said := "nothing"
		for _, header := range []string{"x-short", "x-long"} {
			for _, text := range md[header] {
				if left, _ := strconv.Atoi(text); left > 0 && (left > 100_000) == (header == "x-long") {
					said = header
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		id := strings.Join(md["call"], "")
		calls[id] = append(calls[id], said)
		return status.Error(codes.Unavailable, "as told")
	})
	const retry = `"retry":{"maxAttempts":%d,"backoff":{"initial":"1ms","max":"1ms"},"retryableGRPCCodes":["UNAVAILABLE"],"budget":{"percent":100,"burst":100000}},"circuitBreaker":{"tripKinds":["TotalTimeout"]}`
	short := rules(t, `"timeouts":{"total":"100s"},"deadline":{"header":"X-Short"},`+fmt.Sprintf(retry, 2))
	long := rules(t, `"timeouts":{"total":"1000s","attempt":"500s"},"deadline":{"header":"X-Long"},`+fmt.Sprintf(retry, 3))
	c := client(t, "")
	c.Engine().Swap(short)
	ours, err := grpc.NewClient(conn.Target(), append(grpcclient.DialOptions(c, grpcclient.WithHost("orders")), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()

	var swaps atomic.Int64
	var swapping, callers sync.WaitGroup
	done := make(chan struct{})
	swapping.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if swaps.Add(1)%2 == 0 {
					c.Engine().Swap(short)
				} else {
					c.Engine().Swap(long)
				}
			}
		}
	})
	for g := range 16 {
		callers.Go(func() {
			for i := 0; i < 5 || swaps.Load() < 300; i++ {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "call", fmt.Sprintf("%d-%d", g, i))
				if err := roundTrip(ctx, ours); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "as told" {
					t.Errorf("a call failed for the swap: %v", err)
				}
			}
		})
	}
	callers.Wait()
	close(done)
	swapping.Wait()
	for id, said := range calls {
		want := map[string]int{"x-short": 2, "x-long": 3}[said[0]]
		if len(said) != want || strings.Count(strings.Join(said, " "), said[0]) != want {
			t.Errorf("call %s was made under %v", id, said)
		}
	}
	if len(calls) < 80 {
		t.Errorf("%d calls", len(calls))
	}
}
