package kubesource

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/engine"
)

// watchers is how many clients watch.
const watchers = 200

// applied tells which total came into force at a client, and when.
type applied struct {
	total time.Duration
	at    time.Time
}

// enforcing is an observer that looks at what the engine enforces.
type enforcing struct {
	client  atomic.Pointer[clientlib.Client]
	applied chan applied
}

func (*enforcing) Recorder(string, string) engine.Recorder { return silence{} }

func (e *enforcing) PolicyChanged(c clientlib.PolicyChange) {
	client, now := e.client.Load(), time.Now()
	if c.Result != "applied" || client == nil {
		return
	}
	if p := client.Engine().Snapshot().Lookup("orders.example.com", 80, document.Call{}); p != nil {
		e.applied <- applied{p.Total, now}
	}
}

type silence struct{}

func (silence) CallStarted(string)                 {}
func (silence) AttemptDone(engine.AttemptEvent)    {}
func (silence) CallDone(engine.CallEvent)          {}
func (silence) BodyDone(engine.BodyEvent)          {}
func (silence) WouldCut(string)                    {}
func (silence) CircuitChanged(engine.CircuitState) {}

// fleet is many clients of one name, each with connections of its own, as if
// each were a pod.
type fleet struct{ applied chan applied }

func newFleet(b *testing.B, c *cluster, namespace string) *fleet {
	b.Helper()
	f := &fleet{make(chan applied, 4*watchers)}
	pod := c.newPod(b, namespace)
	pod.config.Host = c.admin.Host // not through the proxy
	for range watchers {
		observer := &enforcing{applied: f.applied}
		client, err := clientlib.New(context.Background(), "checkout",
			clientlib.WithSource(New("checkout", WithConfig(pod.config), WithNamespace(namespace))),
			clientlib.WithReporter(nil), clientlib.WithObserver(observer), clientlib.WithLogger(slog.New(slog.DiscardHandler)))
		must(b, err)
		observer.client.Store(client)
		b.Cleanup(func() { must(b, client.Close()) })
	}
	return f
}

// wait returns how long after a moment a total was in force at each client.
func (f *fleet) wait(b *testing.B, total time.Duration, since time.Time) []time.Duration {
	b.Helper()
	var took []time.Duration
	late := time.After(patience)
	for len(took) < watchers {
		select {
		case a := <-f.applied:
			if a.total == total {
				took = append(took, a.at.Sub(since))
			}
		case <-late:
			b.Fatalf("total %s is in force at %d of %d clients after %s", total, len(took), watchers, patience)
		}
	}
	return took
}

// measure changes the policy b.N times and reports percentiles over all clients.
// Change returns the moment from which they count.
func (f *fleet) measure(b *testing.B, change func(total time.Duration) time.Time) {
	b.Helper()
	var all []time.Duration
	round := func(i int) []time.Duration {
		total := time.Duration(i+1) * time.Second
		since := change(total)
		return f.wait(b, total, since)
	}
	round(0)
	for i := 1; b.Loop(); i++ {
		all = append(all, round(i)...)
	}
	slices.Sort(all)
	for _, p := range []struct {
		name string
		of   float64
	}{{"p50", .5}, {"p90", .9}, {"p99", .99}, {"max", 1}} {
		at := all[min(int(float64(len(all))*p.of), len(all)-1)]
		b.ReportMetric(float64(at.Microseconds())/1000, "ms-"+p.name)
	}
	b.ReportMetric(watchers, "clients")
}

func documentOf(b *testing.B, total time.Duration) string {
	b.Helper()
	limit := document.Duration(total)
	return rendered(b, &document.Document{
		Namespace: "shop", Client: "checkout",
		Upstreams: []document.Upstream{{Name: "orders", Hosts: []string{"orders.example.com"}, Rules: document.Rules{Timeouts: &document.Timeouts{Total: &limit}}}},
	})
}

// From a change to its enforcement by 200 clients:
//
//	go test -run '^$' -bench Enforced -benchtime 50x ./clientlib/kubesource
//
// PatchOfTheConfigMap counts from the request to the API server,
// ApplyOfTheConfigMap from the start of kubectl, ApplyOfThePolicy too, with the
// operator between. AfterARestart counts from the moment when the API server is
// ready again after kill -9.
func BenchmarkEnforcedAfterPatchOfTheConfigMap(b *testing.B) {
	c := theCluster(b)
	namespace := c.newNamespace(b, true)
	c.store(b, namespace, "timeouts-checkout", documentOf(b, time.Millisecond))
	session, err := openSession(c.admin, false)
	must(b, err)
	defer session.close()
	newFleet(b, c, namespace).measure(b, func(total time.Duration) time.Time {
		since := time.Now()
		patch := fmt.Sprintf(`{"data":{"policy.json":%q}}`, documentOf(b, total))
		must(b, session.client.Patch(types.MergePatchType).Namespace(namespace).Resource("configmaps").
			Name("timeouts-checkout").Body([]byte(patch)).Do(b.Context()).Error())
		return since
	})
}

func BenchmarkEnforcedAfterApplyOfTheConfigMap(b *testing.B) {
	c := theCluster(b)
	namespace := c.newNamespace(b, true)
	c.store(b, namespace, "timeouts-checkout", documentOf(b, time.Millisecond))
	newFleet(b, c, namespace).measure(b, func(total time.Duration) time.Time {
		since := time.Now()
		c.store(b, namespace, "timeouts-checkout", documentOf(b, total))
		return since
	})
}

// All clients come back at once, and the policy has changed.
func BenchmarkEnforcedAfterARestartOfTheAPIServer(b *testing.B) {
	c := theCluster(b)
	namespace := c.newNamespace(b, true)
	c.store(b, namespace, "timeouts-checkout", documentOf(b, time.Millisecond))
	newFleet(b, c, namespace).measure(b, func(total time.Duration) time.Time {
		c.order(b, "kill kube-apiserver")
		ready := c.order(b, "start kube-apiserver")
		c.store(b, namespace, "timeouts-checkout", documentOf(b, total))
		return ready
	})
}

func BenchmarkEnforcedAfterApplyOfThePolicy(b *testing.B) {
	c := theCluster(b)
	namespace := c.newNamespace(b, true)
	c.kubectl(b, "", "apply", "-f", filepath.Join(repository, "config/crd/bases"))
	c.kubectl(b, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	c.startOperator(b)
	apply := func(total time.Duration) time.Time {
		since := time.Now()
		c.kubectl(b, fmt.Sprintf(`
apiVersion: timeout-operator.dev/v1alpha1
kind: TimeoutPolicy
metadata: {name: checkout, namespace: %s}
spec:
  clients: [checkout]
  upstreams:
  - name: orders
    hosts: [orders.example.com]
    timeouts: {total: %s}
`, namespace, total), "apply", "-f", "-")
		return since
	}
	newFleet(b, c, namespace).measure(b, apply)
}

// startOperator runs the manager as the administrator until the benchmark ends.
func (c *cluster) startOperator(b *testing.B) {
	b.Helper()
	program := filepath.Join(c.dir, "manager")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/manager")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the operator: %v\n%s", err, out)
	}
	command := exec.Command(program, "--kubeconfig", c.kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	command.Stdout, command.Stderr = io.Discard, io.Discard
	must(b, command.Start())
	b.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
}
