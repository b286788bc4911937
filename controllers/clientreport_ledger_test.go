package controllers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// FakePods is a store of pods.
type FakePods struct {
	client.Reader
	mu   sync.Mutex
	pods map[types.NamespacedName]metav1.ObjectMeta
}

// Get implements client.Reader.
func (f *FakePods) Get(_ context.Context, key types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	meta, there := f.pods[key]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	object.(*metav1.PartialObjectMetadata).ObjectMeta = meta
	return nil
}

func (f *FakePods) set(name string, uid types.UID, dying bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		f.pods = map[types.NamespacedName]metav1.ObjectMeta{}
	}
	meta := metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid}
	if dying {
		meta.DeletionTimestamp = &metav1.Time{}
	}
	f.pods[types.NamespacedName{Namespace: "n", Name: name}] = meta
}

func (f *FakePods) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, types.NamespacedName{Namespace: "n", Name: name})
}

func newReport(pod string, owner types.UID, state v1alpha1.ClientState) *storedReport {
	c := v1alpha1.ReportedClient{Name: "checkout", Delivery: v1alpha1.DeliveryMount, State: state}
	r := &storedReport{statements: []plan.Statement{plan.NewStatement(&c)}, state: reportState([]v1alpha1.ReportedClient{c})}
	r.Namespace, r.Name = "n", pod
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: owner}}
	return r
}

func pod(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }

// states reads the reports by state; those that count are in the census too.
func (l *ledger) states(t *testing.T) map[string]int {
	t.Helper()
	_, states := l.read("n", time.Now(), plan.Options{})
	counted := 0
	for state, n := range states {
		if state != stateOrphan {
			counted += n
		}
	}
	if p := l.namespaces["n"]; p != nil && p.census.Pods() != counted {
		t.Errorf("the census has %d pods, the states %v", p.census.Pods(), states)
	}
	return states
}

func TestAReportCountsWhileItsPodLives(t *testing.T) {
	ctx := t.Context()
	var l ledger
	pods := &FakePods{}
	want := func(step string, want map[string]int) {
		t.Helper()
		if got := l.states(t); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	if l.podChanged(ctx, pods, pod("a")) {
		t.Error("a pod without a report makes no difference")
	}
	l.reported(ctx, pods, newReport("a", "1", v1alpha1.StateReady))
	want("the report is first", map[string]int{stateOrphan: 1})
	pods.set("a", "1", false)
	if !l.podChanged(ctx, pods, pod("a")) {
		t.Error("the pod came")
	}
	want("the pod came", map[string]int{stateReady: 1})
	if l.podChanged(ctx, pods, pod("a")) {
		t.Error("a pod that lives on makes no difference")
	}
	l.reported(ctx, pods, newReport("a", "1", v1alpha1.StateStale))
	want("it changed its mind", map[string]int{stateStale: 1})
	pods.set("a", "1", true)
	if !l.podChanged(ctx, pods, pod("a")) {
		t.Error("the pod is being deleted")
	}
	want("the pod is being deleted", map[string]int{stateOrphan: 1})
	pods.remove("a")
	if l.podChanged(ctx, pods, pod("a")) {
		t.Error("it did not count any more")
	}
	// O23: another pod of the same name does not inherit the report.
	pods.set("a", "2", false)
	if l.podChanged(ctx, pods, pod("a")) {
		t.Error("another pod of the name makes no difference")
	}
	l.reported(ctx, pods, newReport("a", "2", v1alpha1.StateReady))
	want("the new pod took over", map[string]int{stateReady: 1})
	l.gone(newReport("a", "2", v1alpha1.StateReady))
	want("the report is gone", nil)
	l.gone(newReport("a", "2", v1alpha1.StateReady))
	if len(l.namespaces) != 0 {
		t.Errorf("the ledger keeps %v", l.namespaces)
	}
}

// TestTheJoinIsRightInAnyOrder: the informers of reports and pods deliver beside
// each other. Whatever the order, what is left at the end is what is true then.
func TestTheJoinIsRightInAnyOrder(t *testing.T) {
	ctx := t.Context()
	const names, steps = 4, 300
	for seed := range uint64(20) {
		var l ledger
		pods := &FakePods{}
		podNews, reportNews := make(chan string, steps), make(chan *storedReport, steps)
		var informers sync.WaitGroup
		informers.Go(func() {
			for name := range podNews {
				l.podChanged(ctx, pods, pod(name))
			}
		})
		informers.Go(func() {
			for report := range reportNews {
				if report.state == "" {
					l.gone(report)
					continue
				}
				l.reported(ctx, pods, report)
			}
		})
		random := rand.New(rand.NewPCG(seed, 1))
		uids, owners := map[string]types.UID{}, map[string]types.UID{}
		for range steps {
			name, uid := fmt.Sprint("p", random.IntN(names)), types.UID(fmt.Sprint(random.IntN(3)))
			switch random.IntN(4) {
			case 0: // The store changes before anybody hears of it.
				uids[name] = uid
				pods.set(name, uid, false)
				podNews <- name
			case 1:
				delete(uids, name)
				pods.remove(name)
				podNews <- name
			case 2:
				owners[name] = uid
				reportNews <- newReport(name, uid, v1alpha1.StateReady)
			default:
				delete(owners, name)
				gone := newReport(name, uid, v1alpha1.StateReady)
				gone.state = ""
				reportNews <- gone
			}
		}
		close(podNews)
		close(reportNews)
		informers.Wait()
		want := map[string]int{}
		for name, owner := range owners {
			if uid, lives := uids[name]; lives && uid == owner {
				want[stateReady]++
			} else {
				want[stateOrphan]++
			}
		}
		if got := l.states(t); !maps.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// TestAnEndlessReportIsHeardInPart: the library keeps to 4 KiB for a container,
// the schema lets more through.
func TestAnEndlessReportIsHeardInPart(t *testing.T) {
	policy := `{"namespace":"n","name":"p","generation":1,"state":"Applied","message":"` + strings.Repeat("x", 250) + `"}`
	long := strings.Repeat(policy+",", 40) + policy
	var report storedReport
	err := decode([]byte(`{"metadata":{"name":"a"},"clients":[{"name":"first"},{"name":"second","policies":[`+long+`]},{"name":"third","policies":[`+long+`]},{"name":"last"}]}`), &report)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, statement := range report.statements {
		size += statement.Size()
	}
	if len(report.statements) == 0 || size > maxReport {
		t.Errorf("%d bytes in %d statements are kept", size, len(report.statements))
	}
}

func TestAReportIsKeptWithoutWhatNobodyNeeds(t *testing.T) {
	var report storedReport
	if err := decode([]byte(`{"metadata":{"namespace":"n","name":"a","labels":{"x":"y"},"annotations":{"x":"y"},"creationTimestamp":"2026-01-01T00:00:00Z"},
		"library":{"name":"clientlib"},"clients":[{"name":"x","delivery":"Mount","state":"Stale","fromTheFuture":{"a":1}}]}`), &report); err != nil {
		t.Fatal(err)
	}
	same := v1alpha1.ReportedClient{Name: "x", Delivery: v1alpha1.DeliveryMount, State: v1alpha1.StateStale}
	if len(report.statements) != 1 || report.statements[0] != plan.NewStatement(&same) || report.state != stateStale {
		t.Errorf("what is said came out as %+v", report)
	}
	stripReport(&report)
	if report.Labels != nil || report.Annotations != nil || report.Name != "a" || report.CreationTimestamp.IsZero() {
		t.Errorf("metadata came out as %+v", report.ObjectMeta)
	}
}
