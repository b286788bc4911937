package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/capability"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/report"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/plane"
)

// clientName is the client that every pod runs and every policy is for.
const clientName = "checkout"

// fleet is the pods and policies of a run.
type fleet struct {
	plane    *plane.Plane
	options  options
	pods     []plane.Pod
	policies []client.ObjectKey
	// documents by namespace, as pods have them.
	documents map[string]*document.Document
	// made counts pods, for names that never come back.
	made int
}

func (f *fleet) namespace(i int) string { return fmt.Sprintf("fleet-%03d", i%f.options.namespaces) }

// settle makes the namespaces, policies and pods.
func (f *fleet) settle(ctx context.Context) error {
	err := inParallel(f.options.namespaces, func(i int) error {
		return f.plane.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(i)}})
	})
	if err != nil {
		return err
	}
	for i := range f.options.policies {
		policy := newPolicy(f.namespace(i * f.options.namespaces / f.options.policies))
		f.policies = append(f.policies, client.ObjectKeyFromObject(policy))
		if err := f.plane.Client.Create(ctx, policy); err != nil {
			return err
		}
	}
	f.pods = make([]plane.Pod, f.options.pods)
	return inParallel(len(f.pods), func(i int) error { return f.start(ctx, i, f.namespace(i)) })
}

// newPolicy has what is common: limits, retries, a breaker.
func newPolicy(namespace string) *v1alpha1.TimeoutPolicy {
	total, attempt, connect := v1alpha1.Duration("1s"), v1alpha1.Duration("400ms"), v1alpha1.Duration("100ms")
	tries := int32(3)
	policy := &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "checkout"}}
	policy.Spec.Clients = []v1alpha1.ClientName{clientName}
	policy.Spec.Upstreams = []v1alpha1.Upstream{{
		Name: "orders", Hosts: []v1alpha1.HostPattern{"orders.example.com"},
		Rules: v1alpha1.Rules{
			Timeouts: &v1alpha1.Timeouts{Total: &total, Attempt: &attempt, Connect: &connect},
			Retry:    &v1alpha1.Retry{MaxAttempts: &tries},
		},
	}}
	return policy
}

var starting sync.Mutex

// start makes a new pod that nothing runs.
func (f *fleet) start(ctx context.Context, i int, namespace string) error {
	starting.Lock()
	f.made++
	name := fmt.Sprintf("checkout-%06d", f.made)
	starting.Unlock()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "checkout"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	if err := f.plane.Client.Create(ctx, pod); err != nil {
		return err
	}
	f.pods[i] = plane.Pod{Namespace: namespace, Name: name, UID: string(pod.UID)}
	return nil
}

// report has pods report what is in force, in an order that nobody chose.
func (f *fleet) report(ctx context.Context, pods []plane.Pod) error {
	order := rand.Perm(len(pods))
	return inParallel(len(pods), func(i int) error {
		pod := pods[order[i]]
		return f.plane.Report(ctx, pod, f.statement(pod, order[i]*100 < f.options.distinct*len(pods)))
	})
}

// statement is the clients of a pod's report, as clientlib writes them, with a
// message of its own or with what all others say.
func (f *fleet) statement(pod plane.Pod, own bool) string {
	c := report.Client{Name: clientName, Delivery: "Mount", State: report.StateFallback, Adapters: []report.Adapter{report.NewAdapter(capability.NetHTTP())}}
	if doc := f.documents[pod.Namespace]; doc != nil {
		c.State, c.Revision = report.StateReady, doc.Revision
		for _, p := range doc.Policies {
			c.Policies = append(c.Policies, report.Policy{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Generation: p.Generation, State: report.PolicyApplied})
		}
	}
	if own {
		c.Message = fmt.Sprintf("%s of pod %s: %s", strings.Repeat("a long story ", 14), pod.Name, pod.UID)
	}
	text, _ := json.Marshal([]report.Client{c})
	return string(text)
}

// replace deletes some pods and starts as many others, and returns those.
func (f *fleet) replace(ctx context.Context, percent int) ([]plane.Pod, error) {
	some := rand.Perm(len(f.pods))[:len(f.pods)*percent/100]
	err := inParallel(len(some), func(i int) error {
		pod := f.pods[some[i]]
		gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		return errors.Join(f.plane.Client.Delete(ctx, gone, client.GracePeriodSeconds(0)), f.start(ctx, some[i], pod.Namespace))
	})
	young := make([]plane.Pod, 0, len(some))
	for _, i := range some {
		young = append(young, f.pods[i])
	}
	return young, err
}

// change edits every policy.
func (f *fleet) change(ctx context.Context, total v1alpha1.Duration) error {
	patch := client.RawPatch("application/json-patch+json", fmt.Appendf(nil, `[{"op":"replace","path":"/spec/upstreams/0/timeouts/total","value":%q}]`, total))
	return inParallel(len(f.policies), func(i int) error {
		policy := &v1alpha1.TimeoutPolicy{}
		policy.Namespace, policy.Name = f.policies[i].Namespace, f.policies[i].Name
		return f.plane.Client.Patch(ctx, policy, patch)
	})
}

// propagate waits until every policy is in a document, and gives the documents
// to the pods.
func (f *fleet) propagate(ctx context.Context) error {
	if err := f.await(ctx, isTrue(v1alpha1.ConditionProgrammed)); err != nil {
		return err
	}
	f.documents = map[string]*document.Document{}
	var documents corev1.ConfigMapList
	if err := f.plane.Client.List(ctx, &documents, client.MatchingLabels{v1alpha1.LabelDocument: clientName}); err != nil {
		return err
	}
	for i := range documents.Items {
		doc, err := document.Parse([]byte(documents.Items[i].Data[v1alpha1.DocumentKey]))
		if err != nil {
			return err
		}
		f.documents[documents.Items[i].Namespace] = doc
	}
	return nil
}

// right wants every pod of a policy's namespace acknowledged and capable but for
// those that are silent, and nobody else.
func (f *fleet) right(silent ...plane.Pod) func(*v1alpha1.TimeoutPolicy) error {
	pods := map[string]int32{}
	for _, pod := range f.pods {
		pods[pod.Namespace]++
	}
	for _, pod := range silent {
		pods[pod.Namespace]--
	}
	return func(p *v1alpha1.TimeoutPolicy) error {
		for _, condition := range []string{v1alpha1.ConditionAcknowledged, v1alpha1.ConditionCapable, v1alpha1.ConditionReady} {
			if err := isTrue(condition)(p); err != nil {
				return err
			}
		}
		n := pods[p.Namespace]
		if c := p.Status.Clients; len(c) != 1 || c[0].Reporting != n || c[0].Applied != n || p.Status.Summary.Capable != fmt.Sprintf("%d/%d", n, n) {
			return fmt.Errorf("%s has clients %+v, capable %s, want %d", p.Namespace, c, p.Status.Summary.Capable, n)
		}
		return nil
	}
}

// collected waits until there is a report for each pod and no other.
func (f *fleet) collected(ctx context.Context) error {
	reports := &metav1.PartialObjectMetadataList{}
	reports.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClientReportList"))
	return f.poll(ctx, func() error {
		if err := f.plane.Client.List(ctx, reports); err != nil {
			return err
		}
		if len(reports.Items) != len(f.pods) {
			return fmt.Errorf("there are %d reports of %d pods", len(reports.Items), len(f.pods))
		}
		return nil
	})
}

// isTrue wants a condition for the newest generation.
func isTrue(condition string) func(*v1alpha1.TimeoutPolicy) error {
	return func(p *v1alpha1.TimeoutPolicy) error {
		c := meta.FindStatusCondition(p.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != p.Generation {
			return fmt.Errorf("%s/%s at generation %d: %s is %+v", p.Namespace, p.Name, p.Generation, condition, c)
		}
		return nil
	}
}

// await waits until every policy is as wanted.
func (f *fleet) await(ctx context.Context, want func(*v1alpha1.TimeoutPolicy) error) error {
	return f.poll(ctx, func() error { return f.check(ctx, want) })
}

// poll waits until a condition has no error.
func (f *fleet) poll(ctx context.Context, condition func() error) error {
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		last := condition()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", patience, last)
		case <-tick.C:
		}
	}
}

func (f *fleet) check(ctx context.Context, want func(*v1alpha1.TimeoutPolicy) error) error {
	var list v1alpha1.TimeoutPolicyList
	if err := f.plane.Client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := want(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls do with 0 to n-1, a few at a time, until one fails.
func inParallel(n int, do func(int) error) error {
	const workers = 16
	next := make(chan int)
	failed := make(chan error, workers)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < n && err == nil; i++ {
		select {
		case next <- i:
		case err = <-failed:
		}
	}
	close(next)
	working.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}
