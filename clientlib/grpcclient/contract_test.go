package grpcclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	kinds "github.com/timeout-operator/timeout-operator/clientlib/failure"
)

// everything lets a hung server be tried again: the codes are the operator's word.
const everything = `"retry":{"maxAttempts":3,"backoff":{"initial":"10ms","jitter":"None"},"retryableGRPCCodes":["UNAVAILABLE","DEADLINE_EXCEEDED"]}`

func TestHungServerIsRetriedAndEndsAtTheTotal(t *testing.T) {
	doc := rules(t, `"timeouts":{"total":"1s","attempt":"400ms"},`+everything)
	inFakeTime(t, setup{doc: doc, answer: hangs}, func(b *bench) {
		_, err := b.invoke(b.ctx)
		e := failure(t, err)
		if e.Kind != kinds.TotalTimeout || e.Attempts != 3 || e.Field != "timeouts.total" {
			t.Errorf("%v", err)
		}
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) || !e.Timeout() {
			t.Errorf("%v is no timeout of gRPC's and of Go's", err)
		}
		if got := b.elapsed(); got != time.Second {
			t.Errorf("it took %s", got)
		}
		if n := len(b.requests()); n != 3 {
			t.Errorf("the server saw %d requests", n)
		}
	})
}
