package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

func TestRequestsAreCountedFromTheAuditLog(t *testing.T) {
	a := &audit{path: t.TempDir() + "/audit.log"}
	if got, err := a.read(); err != nil || len(got) != 0 {
		t.Fatalf("without a log: %v, %v", got, err)
	}
	line := func(user, verb, resource, subresource string) string {
		return `{"kind":"Event","verb":"` + verb + `","user":{"username":"` + user + `"},"objectRef":{"resource":"` + resource + `","subresource":"` + subresource + `"}}` + "\n"
	}
	log := line(operatorUser, "patch", "timeoutpolicies", "status") + line(operatorUser, "patch", "timeoutpolicies", "status") +
		line(operatorUser, "update", "leases", "") + line(operatorUser, "list", "pods", "") + line("someone", "delete", "pods", "")
	cut := len(log) - 10
	for _, content := range []string{log[:cut], log} { // the last line is not complete at first
		if err := os.WriteFile(a.path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := a.read()
		if err != nil || got.Total() != 4 || got["patch timeoutpolicies/status"] != 2 {
			t.Errorf("counted %v, %v", got, err)
		}
		if writes := got.Writes(); writes.Total() != 2 {
			t.Errorf("writes are %v, want the two patches", writes)
		}
		if s := got.Since(Requests{"patch timeoutpolicies/status": 1}).String(); s != "1 list pods, 1 patch timeoutpolicies/status, 1 update leases" {
			t.Errorf("since: %s", s)
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.RSS < 1<<20 || u.PeakRSS < u.RSS {
		t.Errorf("usage is %+v", u)
	}
}

// TestOperatorOnThePlane is the whole stage once: operator, a pod's own report,
// what the operator asked for, a restart.
func TestOperatorOnThePlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := Start(ctx, Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	o, err := p.StartOperator(ctx, "--report-debounce=100ms")
	if err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "checkout"}}
	total := v1alpha1.Duration("1s")
	policy.Spec.Clients = []v1alpha1.ClientName{"checkout"}
	policy.Spec.Upstreams = []v1alpha1.Upstream{{Name: "orders", Hosts: []v1alpha1.HostPattern{"orders.example.com"}, Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: &total}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "checkout-1"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	if err := errors.Join(p.Client.Create(ctx, policy), p.Client.Create(ctx, pod)); err != nil {
		t.Fatal(err)
	}
	await := func(what string, condition func() error) {
		t.Helper()
		var last error
		if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			last = condition()
			return last == nil, nil
		}); err != nil {
			t.Fatalf("%s: %v", what, last)
		}
	}
	reported := func(want string) func() error {
		return func() error {
			err := p.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
			if got := policy.Status.Summary.Acknowledged; err == nil && got != want {
				err = fmt.Errorf("acknowledged is %q, want %q", got, want)
			}
			return err
		}
	}
	await("programmed", reported("0/0"))
	self := Pod{pod.Namespace, pod.Name, string(pod.UID)}
	await("the pod reports itself", func() error { // a new binding takes a moment to reach the authorizer
		return p.Report(ctx, self, `[{"name":"checkout","delivery":"Mount","state":"Ready","revision":"sha256:0"}]`)
	})
	await("the report counts", reported("0/1"))
	await("the audit log has the writes", func() error {
		requests, err := p.Requests()
		if writes := requests.Writes(); err == nil && (writes["patch timeoutpolicies/status"] < 2 || writes["patch configmaps"] != 1) {
			err = fmt.Errorf("writes are %v", writes)
		}
		return err
	})
	if text, err := o.Metrics(); err != nil || len(text) == 0 {
		t.Errorf("metrics: %v", err)
	}
	o.Stop()
	if o, err = p.StartOperator(ctx); err != nil {
		t.Fatal(err)
	}
	if u, err := o.Usage(); err != nil || u.RSS == 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
}
