package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// added is a queue that keeps what is added at once, and what for later.
type added struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	now, later []string
}

func (q *added) Add(r reconcile.Request) { q.now = append(q.now, r.Namespace) }
func (q *added) AddAfter(r reconcile.Request, _ time.Duration) {
	q.later = append(q.later, r.Namespace)
}

// TestStatusesWaitWhileDocumentsDo: a namespace that waits for its documents goes
// before the statuses of one that has them, but not for ever.
func TestStatusesWaitWhileDocumentsDo(t *testing.T) {
	count := &counted{}
	f := newFixture(t, count.between)
	now := time.Now()
	f.Now = func() time.Time { return now }
	f.newPolicy(t, "checkout", "checkout")

	f.backlog.add("another")
	result := f.expectReconciled(t)
	if want := []string{"apply"}; !slices.Equal(count.writes, want) {
		t.Errorf("with another namespace waiting %v was written, want %v", count.writes, want)
	}
	if result.RequeueAfter != postponedRetry || result.Priority == nil || *result.Priority != handler.LowPriority {
		t.Errorf("the statuses come back with %+v", result)
	}
	if len(f.events.reasons) != 0 {
		t.Errorf("events are sent before the status: %v", f.events.reasons)
	}

	now = now.Add(maxPostponed - time.Second)
	f.expectReconciled(t)
	if len(count.writes) != 1 {
		t.Errorf("written while another namespace waits: %v", count.writes)
	}
	now = now.Add(time.Second)
	f.expectReconciled(t)
	if want := []string{"apply", "status checkout"}; !slices.Equal(count.writes, want) {
		t.Errorf("in the end %v is written, want %v", count.writes, want)
	}
	if len(f.events.reasons["checkout"]) != 1 {
		t.Errorf("events are %v", f.events.reasons)
	}
	if len(f.backlog.postponed) != 0 {
		t.Errorf("still remembered: %v", f.backlog.postponed)
	}
}

func TestPostponedStatusesAreWrittenWhenNothingWaits(t *testing.T) {
	count := &counted{}
	f := newFixture(t, count.between)
	f.newPolicy(t, "checkout", "checkout")
	f.backlog.add("another")
	f.expectReconciled(t)
	f.backlog.begin("another")
	f.expectReconciled(t)
	if want := []string{"apply", "status checkout"}; !slices.Equal(count.writes, want) {
		t.Errorf("written %v, want %v", count.writes, want)
	}
	count.writes = nil
	f.backlog.add("another")
	if result := f.expectReconciled(t); result.RequeueAfter != 0 || len(count.writes) != 0 {
		t.Errorf("with nothing to say, %+v and %v", result, count.writes)
	}
}

// TestFailuresAreNotPostponed: a document that could not be written is tried again
// with a back-off, and its policy says so at once.
func TestFailuresAreNotPostponed(t *testing.T) {
	broken := errors.New("the disk is full")
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return broken
			},
		})
	})
	f.newPolicy(t, "checkout", "checkout")
	f.backlog.add("another")
	if _, err := f.reconcile(t); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if programmed := meta.FindStatusCondition(f.status(t, "checkout").Conditions, v1alpha1.ConditionProgrammed); programmed == nil || programmed.Status != metav1.ConditionFalse {
		t.Errorf("the status says %+v", programmed)
	}
}

// A namespace waits from its event until a worker has it, and only then.
func TestNamespacesWaitFromTheirEventOn(t *testing.T) {
	r := &TimeoutPolicyReconciler{}
	q := &added{}
	policy := &storedPolicy{TimeoutPolicy: v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", ResourceVersion: "1", Generation: 1}}}
	edited := policy.DeepCopyObject().(*storedPolicy)
	edited.ResourceVersion, edited.Generation = "2", 2
	reported := edited.DeepCopyObject().(*storedPolicy)
	reported.ResourceVersion = "3"
	events := r.policyEvents(time.Second)
	ctx := context.Background()

	events.Update(ctx, event.UpdateEvent{ObjectOld: policy, ObjectNew: edited}, q)
	if _, waits := r.backlog.waiting["n"]; !waits || len(q.now) != 1 {
		t.Errorf("an edit: waiting %v, queue %+v", r.backlog.waiting, q)
	}
	r.backlog.begin("n")
	events.Update(ctx, event.UpdateEvent{ObjectOld: edited, ObjectNew: reported}, q)
	if len(r.backlog.waiting) != 0 || len(q.later) != 1 {
		t.Errorf("a status: waiting %v, queue %+v", r.backlog.waiting, q)
	}
	events.Update(ctx, event.UpdateEvent{ObjectOld: policy, ObjectNew: edited}, q)
	if len(r.backlog.waiting) != 0 || len(q.now) != 2 {
		t.Errorf("an edit while a worker has it: waiting %v, queue %+v", r.backlog.waiting, q)
	}
	if r.backlog.postpone("another", time.Now()) {
		t.Error("statuses wait for a namespace that a worker has")
	}
	if !r.backlog.postpone("n", time.Now()) {
		t.Error("statuses that are old already do not wait")
	}
	r.backlog.end("n")
	if !r.backlog.postpone("another", time.Now()) {
		t.Error("statuses do not wait for a namespace that was edited meanwhile")
	}
	r.backlog.begin("n")
	r.backlog.end("n")
	if len(r.backlog.waiting)+len(r.backlog.working) != 0 {
		t.Errorf("still waiting or worked on: %v, %v", r.backlog.waiting, r.backlog.working)
	}
}
