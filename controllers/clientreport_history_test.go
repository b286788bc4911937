package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// history is a namespace in which pods and reports come, go and change at random.
// The stores change at once; what the two informers tell of it comes later, each
// in its own order and at its own pace.
type history struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	uid    int

	pods    FakePods
	reports map[string]v1alpha1.ClientReport

	counts            ledger
	podHandler        handler.EventHandler
	reportHandler     handler.EventHandler
	podNews, repoNews []func()
	wakeups           *wakeups

	// plan has the policies and their documents.
	plan      plan.Input
	revisions []string
	// last is who counted when it was looked at last.
	last string
}

// wakeups counts the requests for a reconcile.
type wakeups struct {
	queue
	n int
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (w *wakeups) AddAfter(reconcile.Request, time.Duration) { w.n++ }

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		t:       t,
		random:  rand.New(rand.NewPCG(seed, 2)),
		now:     time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		reports: map[string]v1alpha1.ClientReport{},
		wakeups: &wakeups{},
		last:    countedNow(nil, nil),
	}
	h.podHandler = podEvents(time.Second, &h.counts, &h.pods)
	h.reportHandler = reportEvents(time.Second, &h.counts, &h.pods)
	h.plan = plan.Input{Namespace: "n", Now: h.now, Policies: []v1alpha1.TimeoutPolicy{
		h.policy("wide", `{"upstreams":[{"name":"orders","hosts":["orders.example.com"],"timeouts":{"total":"2s"}}]}`),
		h.policy("narrow", `{"clients":["web"],"upstreams":[{"name":"stock","hosts":["stock.example.com"],"timeouts":{"total":"1s"}}]}`),
	}}
	for _, d := range plan.Plan(h.plan).Documents {
		h.revisions = append(h.revisions, d.Revision)
		h.plan.Existing = append(h.plan.Existing, plan.ExistingDocument{ConfigMap: d.ConfigMap, Client: d.Client, Revision: d.Revision, Since: d.Since})
	}
	return h
}

func (h *history) policy(name, spec string) v1alpha1.TimeoutPolicy {
	h.t.Helper()
	p := v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(h.now)}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (h *history) chance(percent int) bool { return h.random.IntN(100) < percent }

func (h *history) nextUID() types.UID {
	h.uid++
	return types.UID(fmt.Sprint("uid-", h.uid))
}

func one[T any](h *history, of ...T) T { return of[h.random.IntN(len(of))] }

// tellOfPod queues news of a pod from before to after; nil is none.
func (h *history) tellOfPod(before, after *metav1.ObjectMeta) {
	object := func(meta *metav1.ObjectMeta) client.Object {
		pod := newPod()
		pod.ObjectMeta = *meta
		return pod
	}
	h.podNews = append(h.podNews, h.news(h.podHandler, before != nil, after != nil, func() client.Object { return object(before) }, func() client.Object { return object(after) }))
}

func (h *history) tellOfReport(before, after *v1alpha1.ClientReport) {
	h.repoNews = append(h.repoNews, h.news(h.reportHandler, before != nil, after != nil, func() client.Object { return h.stored(before) }, func() client.Object { return h.stored(after) }))
}

// news is an event as controller-runtime hands it on. That of a deletion which the
// watch missed has an object that may be older than what was seen last.
func (h *history) news(to handler.EventHandler, was, is bool, before, after func() client.Object) func() {
	ctx, q := h.t.Context(), queue(h.wakeups)
	switch {
	case was && is:
		e := event.UpdateEvent{ObjectOld: before(), ObjectNew: after()}
		return func() { to.Update(ctx, e, q) }
	case is:
		e := event.CreateEvent{Object: after()}
		return func() { to.Create(ctx, e, q) }
	default:
		e := event.DeleteEvent{Object: before(), DeleteStateUnknown: h.chance(50)}
		return func() { to.Delete(ctx, e, q) }
	}
}

// stored is a report as the cache has it.
func (h *history) stored(report *v1alpha1.ClientReport) *storedReport {
	h.t.Helper()
	data, err := json.Marshal(report)
	if err != nil {
		h.t.Fatal(err)
	}
	stored := &storedReport{}
	if err := decode(data, stored); err != nil {
		h.t.Fatal(err)
	}
	stripReport(stored)
	return stored
}

func (h *history) pod(name string) *metav1.ObjectMeta {
	meta, there := h.pods.pods[pod(name)]
	if !there {
		return nil
	}
	return &meta
}

func (h *history) setPod(name string, meta *metav1.ObjectMeta) {
	h.pods.mu.Lock()
	defer h.pods.mu.Unlock()
	if h.pods.pods == nil {
		h.pods.pods = map[types.NamespacedName]metav1.ObjectMeta{}
	}
	if meta == nil {
		delete(h.pods.pods, pod(name))
		return
	}
	h.pods.pods[pod(name)] = *meta
}

// changePod lets a pod come, go, end, be replaced or be told of once more.
func (h *history) changePod(name string) {
	before := h.pod(name)
	fresh := &metav1.ObjectMeta{Namespace: "n", Name: name, UID: h.nextUID(), CreationTimestamp: metav1.NewTime(h.now)}
	switch {
	case before == nil:
		h.setPod(name, fresh)
		h.tellOfPod(nil, fresh)
	case h.chance(25): // a resync
		h.tellOfPod(before, before)
	case h.chance(30):
		dying := *before
		dying.DeletionTimestamp = &metav1.Time{Time: h.now}
		h.setPod(name, &dying)
		h.tellOfPod(before, &dying)
	case h.chance(30): // replaced, of which a list after a gap tells as of an update
		h.setPod(name, fresh)
		h.tellOfPod(before, fresh)
	case h.chance(30):
		h.setPod(name, fresh)
		h.tellOfPod(before, nil)
		h.tellOfPod(nil, fresh)
	default:
		h.setPod(name, nil)
		h.tellOfPod(before, nil)
	}
}

// changeReport does the same with a report.
func (h *history) changeReport(name string) {
	old, there := h.reports[name]
	fresh := h.write(name)
	switch {
	case !there:
		h.reports[name] = fresh
		h.tellOfReport(nil, &fresh)
	case h.chance(10):
		h.tellOfReport(&old, &old)
	case h.chance(10):
		dying := old
		dying.DeletionTimestamp = &metav1.Time{Time: h.now}
		h.reports[name] = dying
		h.tellOfReport(&old, &dying)
	case h.chance(15): // made anew, told of as one update
		h.reports[name] = fresh
		h.tellOfReport(&old, &fresh)
	case h.chance(15):
		h.reports[name] = fresh
		h.tellOfReport(&old, nil)
		h.tellOfReport(nil, &fresh)
	case h.chance(25):
		delete(h.reports, name)
		h.tellOfReport(&old, nil)
	default:
		fresh.CreationTimestamp = old.CreationTimestamp
		h.reports[name] = fresh
		h.tellOfReport(&old, &fresh)
	}
}

// write is a report of up to three containers, mostly by the pod of its name.
func (h *history) write(name string) v1alpha1.ClientReport {
	r := v1alpha1.ClientReport{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(h.now)}}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(fmt.Sprint("uid-", h.random.IntN(h.uid+1)))}
	if pod := h.pod(name); pod != nil && h.chance(80) {
		owner.UID = pod.UID
	}
	r.OwnerReferences = []metav1.OwnerReference{owner}
	switch h.random.IntN(20) {
	case 0:
		r.OwnerReferences = nil
	case 1:
		r.OwnerReferences = append(r.OwnerReferences, owner)
	case 2:
		r.OwnerReferences[0].Name = "another"
	}
	for range h.random.IntN(4) {
		c := v1alpha1.ReportedClient{Name: "web", Delivery: v1alpha1.DeliveryMount, State: v1alpha1.StateStale, Revision: "sha256:old"}
		if h.chance(40) { // mostly they say the same
			c = v1alpha1.ReportedClient{
				Name:     one(h, "web", "cart", "other"),
				Delivery: one(h, v1alpha1.DeliveryMount, v1alpha1.DeliveryStatic),
				State:    one(h, v1alpha1.StateReady, v1alpha1.StateStale, v1alpha1.StateFallback),
				Revision: one(h, append(h.revisions, "sha256:old", "")...),
			}
		}
		if h.chance(20) {
			c.Policies = []v1alpha1.ReportedPolicy{{Namespace: "n", Name: "narrow", UID: "narrow", Generation: 1, State: v1alpha1.PolicyRejected, Reason: one(h, "A", "B")}}
		}
		if h.chance(50) {
			c.Adapters = []v1alpha1.ReportedAdapter{{Name: one(h, "nethttp", "grpc"), Capabilities: map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{"TimeoutTotal": one(h, v1alpha1.LevelNative, v1alpha1.LevelAbsent)}}}
		}
		r.Clients = append(r.Clients, c)
	}
	return r
}

// deliver hands on what comes next from one of the informers.
func (h *history) deliver() bool {
	from := &h.podNews
	if len(h.podNews) == 0 || len(h.repoNews) > 0 && h.chance(50) {
		from = &h.repoNews
	}
	if len(*from) == 0 {
		return false
	}
	(*from)[0]()
	*from = (*from)[1:]
	return true
}

// wipe deletes all there is, as the end of a namespace does.
func (h *history) wipe() {
	for _, key := range slices.SortedFunc(maps.Keys(h.pods.pods), func(a, b types.NamespacedName) int { return len(a.Name) - len(b.Name) }) {
		before := h.pod(key.Name)
		h.setPod(key.Name, nil)
		h.tellOfPod(before, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(h.reports)) {
		old := h.reports[name]
		delete(h.reports, name)
		h.tellOfReport(&old, nil)
	}
}

// recount counts from the stores alone: the reports of live pods with the time
// from which they can have spoken, and all of them by state.
func (h *history) recount() ([]v1alpha1.ClientReport, map[string]int) {
	var live []v1alpha1.ClientReport
	states := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(h.reports)) {
		r := h.reports[name]
		pod := h.pod(name)
		if pod == nil || pod.DeletionTimestamp != nil || r.DeletionTimestamp != nil || len(r.OwnerReferences) != 1 ||
			r.OwnerReferences[0].Name != name || r.OwnerReferences[0].UID != pod.UID {
			states["orphan"]++
			continue
		}
		if pod.CreationTimestamp.After(r.CreationTimestamp.Time) {
			r.CreationTimestamp = pod.CreationTimestamp
		}
		live = append(live, r)
		said := map[v1alpha1.ClientState]bool{}
		for _, c := range r.Clients {
			said[c.State] = true
		}
		switch {
		case said[v1alpha1.StateFallback]:
			states["fallback"]++
		case said[v1alpha1.StateStale]:
			states["stale"]++
		default:
			states["ready"]++
		}
	}
	return live, states
}

// check compares the ledger with the recount once everybody was told everything.
func (h *history) check(where string) {
	h.t.Helper()
	for h.deliver() {
	}
	live, wantStates := h.recount()
	voices, states := h.counts.read("n", h.now, plan.Options{})
	if !maps.Equal(states, wantStates) {
		h.t.Fatalf("%s: the ledger has %v, a recount %v", where, states, wantStates)
	}
	if (h.counts.namespaces["n"] != nil) != (len(h.reports) > 0) {
		h.t.Fatalf("%s: %d reports, and the ledger has the namespace or not: %v", where, len(h.reports), h.counts.namespaces["n"])
	}
	single, counted := h.plan, h.plan
	single.Now, counted.Now = h.now, h.now
	single.Reports, counted.Voices = live, voices
	want, got := plan.Plan(single), plan.Plan(counted)
	if !reflect.DeepEqual(want.Statuses, got.Statuses) || want.RequeueAfter != got.RequeueAfter {
		h.t.Fatalf("%s: the ledger makes it\n%+v, a recount\n%+v", where, got.Statuses, want.Statuses)
	}
	h.countByHand(where, live, got.Statuses)
	who := countedNow(live, states)
	if who != h.last && h.wakeups.n == 0 {
		h.t.Fatalf("%s: the counts changed and nobody was told", where)
	}
	h.last, h.wakeups.n = who, 0
}

// countedNow is a text that changes with what a status could say of the reports.
func countedNow(live []v1alpha1.ClientReport, states map[string]int) string {
	return fmt.Sprint(live, states)
}

// countByHand adds up who reports, who follows and who is late, without any of the code that
// groups and remembers: "web" has its own document, the others share one. Both
// policies are in that of "web", only the wide one in the other.
func (h *history) countByHand(where string, live []v1alpha1.ClientReport, statuses []plan.PolicyStatus) {
	h.t.Helper()
	revisions := map[string]string{}
	for _, e := range h.plan.Existing {
		revisions[e.Client] = e.Revision
	}
	type figure struct{ reporting, applied, stale int32 }
	want := map[string]figure{}
	for _, r := range live {
		for _, c := range r.Clients {
			document := ""
			if c.Name == "web" {
				document = "web"
			}
			f := want[document]
			f.reporting++
			written := h.plan.Now
			if r.CreationTimestamp.After(written) {
				written = r.CreationTimestamp.Time
			}
			switch {
			case c.Revision == revisions[document]:
				f.applied++
			case c.Delivery == v1alpha1.DeliveryStatic:
				f.stale++
			case c.Revision == "" && len(c.Policies) == 0 && c.State != v1alpha1.StateFallback: // too old to tell
			case h.now.Sub(written) >= 3*time.Minute:
				f.stale++
			}
			want[document] = f
		}
	}
	for _, s := range statuses {
		for _, c := range s.Status.Clients {
			want, got := want[c.Name], figure{c.Reporting, c.Applied, c.Stale}
			if s.Name == "narrow" { // some reject it, and are not stale then
				want.stale, got.stale = 0, 0
			}
			if got != want {
				h.t.Fatalf("%s: policy %s, document of %q: %+v, want %+v", where, s.Name, c.Name, got, want)
			}
		}
	}
}

// TestTheLedgerIsARecountAfterAnyHistory: whatever came in whatever order, the
// counts that were kept are those that a recount of the stores makes.
func TestTheLedgerIsARecountAfterAnyHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		h := newHistory(t, seed)
		for step := range 200 {
			name := fmt.Sprint("p", h.random.IntN(5))
			switch n := h.random.IntN(100); {
			case n < 20:
				h.changePod(name)
			case n < 45:
				h.changeReport(name)
			case n < 80:
				h.deliver()
			case n < 92:
				h.now = h.now.Add(time.Duration(h.random.IntN(100)) * time.Second)
			case n < 95: // a reconcile in the middle of it all
				h.counts.read("n", h.now, plan.Options{})
			case n < 99:
				h.check(fmt.Sprintf("seed %d, step %d", seed, step))
			default:
				h.wipe()
			}
		}
		h.check(fmt.Sprintf("seed %d, end", seed))
		h.wipe()
		h.check(fmt.Sprintf("seed %d, all gone", seed))
	}
}
