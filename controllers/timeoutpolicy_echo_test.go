package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

func version(v string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "timeouts", ResourceVersion: v}}
}

// What a write brings about is told from what others do, whether the event or the
// answer comes first.
func TestEchoesOfWritesAreToldFromTheDoingsOfOthers(t *testing.T) {
	key := documentKey("n", "timeouts")
	for _, c := range []struct {
		name string
		// during and after are the versions that are heard while the object is
		// written, and when the answer was there.
		during []string
		answer string
		after  []string
		// echo says of those after whether they are echoes, and missed whether the
		// namespace has to be looked at again.
		echo   []bool
		missed bool
	}{
		{"the answer first", nil, "7", []string{"7"}, []bool{true}, false},
		{"the event first", []string{"7"}, "7", []string{"8"}, []bool{false}, false},
		{"somebody before us", []string{"6"}, "7", []string{"7"}, []bool{true}, true},
		{"somebody before us, and both events first", []string{"6", "7"}, "7", []string{"8"}, []bool{false}, true},
		{"somebody after us, and both events first", []string{"7", "8"}, "7", []string{"9"}, []bool{false}, true},
		{"somebody after us, and our event was never seen", nil, "7", []string{"8"}, []bool{false}, false},
		{"an old event that was late", nil, "7", []string{"6", "7", "7"}, []bool{false, true, false}, false},
		{"the write failed", nil, "", []string{"7"}, []bool{false}, false},
		{"the write failed, and somebody was there", []string{"7"}, "", nil, nil, true},
	} {
		var e echoes
		e.begin(key)
		for _, v := range c.during {
			if !e.isEcho(key, version(v)) {
				t.Errorf("%s: %s is not kept for the writer", c.name, v)
			}
		}
		e.end(key, c.answer)
		for i, v := range c.after {
			if got := e.isEcho(key, version(v)); got != c.echo[i] {
				t.Errorf("%s: that %s is an echo is %t", c.name, v, got)
			}
		}
		if got := e.takeMissed("n"); got != c.missed {
			t.Errorf("%s: something was missed: %t", c.name, got)
		}
		if e.takeMissed("n") {
			t.Errorf("%s: it is told twice", c.name)
		}
	}
}

// A policy and a document of one name are two objects, and what is deleted is
// forgotten.
func TestEchoesAreOfOneObject(t *testing.T) {
	var e echoes
	e.begin(documentKey("n", "timeouts"))
	e.end(documentKey("n", "timeouts"), "7")
	for _, other := range []echoKey{policyKey("n", "timeouts"), documentKey("m", "timeouts"), documentKey("n", "timeouts-x")} {
		if e.isEcho(other, version("7")) {
			t.Errorf("%v is an echo", other)
		}
	}
	e.gone(documentKey("n", "timeouts"))
	if len(e.objects) != 0 {
		t.Errorf("still remembered: %v", e.objects)
	}
}

// Our own writes have nobody work; an edit by hand, a deletion and the periodic
// resync do.
func TestOnlyTheDoingsOfOthersHaveADocumentLookedAt(t *testing.T) {
	r := &TimeoutPolicyReconciler{}
	key := documentKey("n", "timeouts")
	ctx := t.Context()
	q := &added{}
	wrote := func(v string) {
		r.echoes.begin(key)
		r.echoes.end(key, v)
	}
	expect := func(what string, n int) {
		t.Helper()
		if len(q.now) != n {
			t.Errorf("%s: %d are looked at, want %d", what, len(q.now), n)
		}
		q.now = nil
	}
	events := r.documentEvents()
	wrote("1")
	events.Create(ctx, event.CreateEvent{Object: version("1")}, q)
	expect("created by us", 0)
	wrote("2")
	events.Update(ctx, event.UpdateEvent{ObjectOld: version("1"), ObjectNew: version("2")}, q)
	expect("written by us", 0)
	events.Update(ctx, event.UpdateEvent{ObjectOld: version("2"), ObjectNew: version("3")}, q)
	expect("edited by hand", 1)
	wrote("4")
	events.Update(ctx, event.UpdateEvent{ObjectOld: version("4"), ObjectNew: version("4")}, q)
	expect("resync", 1)
	events.Delete(ctx, event.DeleteEvent{Object: version("4")}, q)
	expect("deleted", 1)
	events.Create(ctx, event.CreateEvent{Object: version("5")}, q)
	expect("created by hand", 1)
}

// A status that we wrote is not looked at again, one that somebody else wrote is,
// and an edit is even where our status came with it.
func TestOnlyTheStatusesOfOthersAreLookedAt(t *testing.T) {
	r := &TimeoutPolicyReconciler{}
	ctx := t.Context()
	q := &added{}
	policy := func(v string, generation int64) *storedPolicy {
		return &storedPolicy{TimeoutPolicy: v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", ResourceVersion: v, Generation: generation}}}
	}
	events := r.policyEvents(time.Second)
	wrote := func(v string) {
		r.echoes.begin(policyKey("n", "p"))
		r.echoes.end(policyKey("n", "p"), v)
	}
	wrote("2")
	events.Update(ctx, event.UpdateEvent{ObjectOld: policy("1", 1), ObjectNew: policy("2", 1)}, q)
	if len(q.now)+len(q.later) != 0 {
		t.Errorf("after our own status: %+v", q)
	}
	events.Update(ctx, event.UpdateEvent{ObjectOld: policy("2", 1), ObjectNew: policy("3", 1)}, q)
	if len(q.now) != 0 || len(q.later) != 1 {
		t.Errorf("after the status of somebody else: %+v", q)
	}
	wrote("5")
	events.Update(ctx, event.UpdateEvent{ObjectOld: policy("3", 1), ObjectNew: policy("5", 2)}, q)
	if len(q.now) != 1 {
		t.Errorf("after an edit: %+v", q)
	}
}

// What was heard during a reconcile, and is not its own doing, has the namespace
// looked at again at once.
func TestWhatWasHeardDuringAReconcileIsNotLost(t *testing.T) {
	f := newFixture(t)
	f.newPolicy(t, "checkout", "checkout")
	key := documentKey(f.namespace, "timeouts-checkout")
	f.echoes.begin(key)
	f.echoes.isEcho(key, version("an edit by hand"))
	f.echoes.end(key, "ours")
	if result := f.expectReconciled(t); result.RequeueAfter != missedRetry {
		t.Errorf("looked at again after %v", result.RequeueAfter)
	}
	if result := f.expectReconciled(t); result.RequeueAfter != 0 {
		t.Errorf("and again after %v", result.RequeueAfter)
	}
}
