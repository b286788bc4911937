package controllers

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// ledger joins reports to their pods as both come and go, and holds the counts
// of every namespace. A report counts when the pod that it is named after lives
// and has the UID that the report is owned by: what is left behind by a pod that
// is gone, or by an earlier one of the same name, says nothing.
//
// Reports and pods have an informer each, and neither waits for the other. The
// join is right all the same because a pod is looked up in the informer's store
// while the ledger is locked, whichever of the two has news: the store is always
// ahead of the events that tell of it, so the last to come sees both.
//
// The zero value is ready. Safe for concurrent use.
type ledger struct {
	mu         sync.Mutex
	namespaces map[string]*page
}

// page is one namespace of the ledger.
type page struct {
	entries map[string]*entry
	census  plan.Census
	// states counts the reports as timeouts_operator_reports does.
	states map[string]int
}

// entry is one report.
type entry struct {
	owner      types.UID
	since      time.Time
	statements []plan.Statement
	// said is the state of the report, counted the one under which it counts now;
	// empty before it was counted first.
	said, counted string
}

// reported notes a report that came or changed.
func (l *ledger) reported(ctx context.Context, pods client.Reader, report *storedReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.namespaces == nil {
		l.namespaces = map[string]*page{}
	}
	p := l.namespaces[report.Namespace]
	if p == nil {
		p = &page{entries: map[string]*entry{}, states: map[string]int{}}
		l.namespaces[report.Namespace] = p
	}
	e := p.entries[report.Name]
	if e == nil {
		e = &entry{}
		p.entries[report.Name] = e
	}
	e.owner, e.since, e.statements, e.said = plan.OwningPod(report), report.CreationTimestamp.Time, report.statements, report.state
	p.count(report.Name, e, e.pod(ctx, pods, client.ObjectKeyFromObject(report)))
}

// gone notes a report that was deleted.
func (l *ledger) gone(report *storedReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.namespaces[report.Namespace]
	if p == nil || p.entries[report.Name] == nil {
		return
	}
	p.move(p.entries[report.Name], "")
	p.census.Remove(report.Name)
	delete(p.entries, report.Name)
	if len(p.entries) == 0 {
		delete(l.namespaces, report.Namespace)
	}
}

// podChanged looks at a pod again, and reports whether that made a difference to
// what counts.
func (l *ledger) podChanged(ctx context.Context, pods client.Reader, pod types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.namespaces[pod.Namespace]
	if p == nil || p.entries[pod.Name] == nil {
		return false
	}
	e := p.entries[pod.Name]
	living := e.pod(ctx, pods, pod)
	if (living != nil) == (e.counted != stateOrphan) {
		return false
	}
	p.count(pod.Name, e, living)
	return true
}

// pod returns the pod that owns a report, nil when it does not live. One that
// cannot be looked up does not.
func (e *entry) pod(ctx context.Context, pods client.Reader, key types.NamespacedName) *metav1.PartialObjectMetadata {
	if e.owner == "" {
		return nil
	}
	pod := newPod()
	if err := pods.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	if pod.UID != e.owner || pod.DeletionTimestamp != nil {
		return nil
	}
	return pod
}

// count enters what an entry says, or takes it out when its pod does not live.
func (p *page) count(name string, e *entry, living *metav1.PartialObjectMetadata) {
	if living != nil {
		p.census.Set(name, plan.FirstSaid(e.since, living.CreationTimestamp.Time), e.statements)
		p.move(e, e.said)
		return
	}
	p.census.Remove(name)
	p.move(e, stateOrphan)
}

// move counts an entry under another state; the empty one is none.
func (p *page) move(e *entry, state string) {
	if e.counted != "" {
		if p.states[e.counted]--; p.states[e.counted] == 0 {
			delete(p.states, e.counted)
		}
	}
	if e.counted = state; state != "" {
		p.states[state]++
	}
}

// read returns the counts of a namespace for a plan of that time, and its
// reports by state.
func (l *ledger) read(namespace string, now time.Time, options plan.Options) ([]plan.Voice, map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.namespaces[namespace]
	if p == nil {
		return nil, nil
	}
	states := make(map[string]int, len(p.states))
	for state, n := range p.states {
		states[state] = n
	}
	return p.census.Voices(now, options), states
}
