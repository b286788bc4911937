package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// A panic of one write is that write's error: the controller recovers no goroutine
// but its own, and one bad document must not end the process.
func TestAPanicOfOneWriteIsItsErrorAlone(t *testing.T) {
	broken := errors.New("broken")
	errs := inParallel(t.Context(), 40, func(i int) error {
		switch i % 4 {
		case 0:
			panic(fmt.Sprint("nonsense ", i))
		case 1:
			return broken
		default:
			return nil
		}
	})
	for i, err := range errs {
		switch i % 4 {
		case 0:
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("nonsense ", i)) {
				t.Errorf("%d: the panic came out as %v", i, err)
			}
		case 1:
			if !errors.Is(err, broken) {
				t.Errorf("%d: %v", i, err)
			}
		default:
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
}

// A status that was refused is tried again in the end: the schema may be another
// by then, and nothing tells of that.
func TestARefusedStatusIsTriedAgainInTheEnd(t *testing.T) {
	var m refusals
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	status := func(uid types.UID, generation int64) *plan.PolicyStatus {
		s := &plan.PolicyStatus{UID: uid}
		s.Status.ObservedGeneration = generation
		return s
	}
	if m.has(status("a", 1), now) {
		t.Error("nothing was refused yet")
	}
	m.add(status("a", 1), now)
	if !m.has(status("a", 1), now.Add(refusalHolds-time.Second)) {
		t.Error("it is tried again and again")
	}
	if m.has(status("a", 1), now.Add(refusalHolds)) {
		t.Error("it is never tried again")
	}
	m.add(status("a", 1), now)
	if m.has(status("a", 2), now) || m.has(status("a", 1), now) {
		t.Error("an edit does not count")
	}
	// Policies that are gone are not remembered for ever.
	for i := range 10_000 {
		m.add(status(types.UID(fmt.Sprint(i)), 1), now.Add(time.Duration(i)*time.Minute))
	}
	if len(m.policies) > 200 {
		t.Errorf("%d policies are remembered, of which 60 may be", len(m.policies))
	}
}

// What was not deleted is not counted as deleted.
func TestATombstoneThatIsSomethingElseByNowIsLeft(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for _, test := range []struct {
		answer  error
		deleted float64
		fails   bool
	}{
		{nil, 1, false},
		{apierrors.NewNotFound(configMaps, "timeouts-x"), 0, false},
		{apierrors.NewConflict(configMaps, "timeouts-x", errors.New("another version")), 0, false},
		{apierrors.NewInternalError(errors.New("the disk is full")), 0, true},
	} {
		metrics, err := NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		r := &TimeoutPolicyReconciler{Metrics: metrics, Client: interceptor.NewClient(nil, interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return test.answer
			},
		})}
		err = r.deleteDocument(t.Context(), &facts{namespace: "n"}, "timeouts-x")
		if (err != nil) != test.fails {
			t.Errorf("%v: the error is %v", test.answer, err)
		}
		if got := testutil.ToFloat64(metrics.applies.WithLabelValues(resultDeleted)); got != test.deleted {
			t.Errorf("%v: %v are counted as deleted", test.answer, got)
		}
	}
}
