package adaptertest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// DeadAddress returns an address at which nobody listens, for [Unreachable].
func DeadAddress(t testing.TB) string {
	l := listen(t)
	_ = l.Close()
	return l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen on loopback: %v", err)
	}
	return l
}

// StallingAddress returns an address that accepts connections, says nothing, and
// closes them after a while or with the test, for [Stalls].
func StallingAddress(t testing.TB, delay time.Duration) string {
	l := listen(t)
	ended := make(chan struct{})
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				timer := time.NewTimer(delay)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ended:
				}
			})
		}
	})
	t.Cleanup(func() {
		close(ended)
		_ = l.Close()
		open.Wait()
	})
	return l.Addr().String()
}
