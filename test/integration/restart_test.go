package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// verdict is a status in one line, without times and words.
func verdict(s *v1alpha1.TimeoutPolicyStatus) string {
	var parts []string
	for _, c := range s.Conditions {
		parts = append(parts, fmt.Sprintf("%s=%s/%s@%d", c.Type, c.Status, c.Reason, c.ObservedGeneration))
	}
	for _, c := range s.Clients {
		parts = append(parts, fmt.Sprintf("%s %d %d %d %d", c.Name, c.Reporting, c.Applied, c.Rejected, c.Stale))
	}
	return strings.Join(append(parts, s.Summary.Acknowledged, s.Summary.Capable), " ")
}

// verdicts watches a policy from now on and returns a function that ends the
// watch and tells its verdicts since, each with how it began.
func (c *cluster) verdicts(t *testing.T, policy *v1alpha1.TimeoutPolicy) func() []string {
	t.Helper()
	watching, err := client.NewWithWatch(c.admin, client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatal(err)
	}
	seen := []string{verdict(&policy.Status)}
	watch, err := watching.Watch(t.Context(), &v1alpha1.TimeoutPolicyList{}, client.InNamespace(policy.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", policy.Name)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: policy.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	version := policy.ResourceVersion
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			stored, ok := event.Object.(*v1alpha1.TimeoutPolicy)
			if !ok {
				continue
			}
			mu.Lock()
			version = stored.ResourceVersion
			if verdict(&stored.Status) != seen[len(seen)-1] {
				seen = append(seen, verdict(&stored.Status))
			}
			mu.Unlock()
		}
	}()
	return func() []string {
		t.Helper()
		eventually(t, func() error { // a watch comes a moment later than what it tells of
			var now v1alpha1.TimeoutPolicy
			if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(policy), &now); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if version != now.ResourceVersion {
				return fmt.Errorf("the watch is at %s, the policy at %s", version, now.ResourceVersion)
			}
			return nil
		})
		watch.Stop()
		<-done
		return seen
	}
}

// TestRestartEndsWithTheSameStatusWithoutAFlap stops the operator in the middle
// of a rollout. Every version of the status that the API server ever had is one
// of before, or of after what happened meanwhile: nobody sees a count that is
// still being gathered.
func TestRestartEndsWithTheSameStatusWithoutAFlap(t *testing.T) {
	ctx := context.Background()
	first := shared.startReady(t, quick)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	lacking := allCapable()
	lacking["DeadlineCoversBody"] = "Absent"
	pods := make([]*corev1.Pod, 8)
	for i := range pods {
		pods[i] = shared.newPod(t, namespace, fmt.Sprintf("checkout-%d", i))
		switch {
		case i == 0:
			shared.reportAs(t, pods[i], checkoutClient("sha256:0", lacking))
		case i < 4:
			shared.reportAs(t, pods[i], checkoutClient("sha256:0", allCapable()))
		default:
			shared.reportAs(t, pods[i], checkoutClient(revision, allCapable()))
		}
	}
	shared.expectStatus(t, policy, summary("4/8", "7/8"))
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonPropagating)
	first.settle(t)

	// A process that finds everything as it left it says the same, and writes
	// nothing for it.
	seen := shared.verdicts(t, policy)
	before := policy.ResourceVersion
	first.end(t)
	second := shared.startReady(t, quick)
	second.settle(t)
	if writes := second.requests.writes("/" + namespace + "/"); len(writes) > 0 {
		t.Errorf("the restart wrote %v", writes)
	}
	if got := seen(); len(got) != 1 {
		t.Errorf("the restart made the status go %q", got)
	}
	if err := shared.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil || policy.ResourceVersion != before {
		t.Errorf("version %s became %s (%v)", before, policy.ResourceVersion, err)
	}

	// What happens while no operator runs comes in one step.
	seen = shared.verdicts(t, policy)
	second.end(t)
	for i := 1; i < 4; i++ {
		shared.reportAs(t, pods[i], checkoutClient(revision, allCapable()))
	}
	if err := shared.client.Delete(ctx, pods[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	third := shared.startReady(t, quick)
	shared.expectStatus(t, policy, summary("7/7", "7/7"))
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	third.settle(t)
	if got := seen(); len(got) != 2 {
		t.Errorf("the status went %q, want one step", got)
	}
}

// TestStatusHealsWhenTheAPIServerWasAway: the operator hears of nothing for a
// while, in which pods report and go.
func TestStatusHealsWhenTheAPIServerWasAway(t *testing.T) {
	line := shared.newProxy(t)
	line.connect(t)
	shared.startReady(t, quick, shared.through(t, line))
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	pods := make([]*corev1.Pod, 4)
	for i := range pods {
		pods[i] = shared.newPod(t, namespace, fmt.Sprintf("checkout-%d", i))
		shared.reportAs(t, pods[i], checkoutClient(revision, allCapable()))
	}
	shared.expectStatus(t, policy, summary("4/4", "4/4"))
	shared.expectCondition(t, policy, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)

	line.cut()
	seen := shared.verdicts(t, policy)
	shared.reportAs(t, pods[0], checkoutClient("sha256:0", allCapable()))
	for _, pod := range pods[2:] {
		if err := shared.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	line.connect(t)
	shared.expectStatus(t, policy, summary("1/2", "2/2"))
	// It was True for this generation and stays so.
	for _, got := range seen() {
		if !strings.Contains(got, "Acknowledged=True") || !strings.Contains(got, "Ready=True") {
			t.Errorf("the status flapped: %s", got)
		}
	}
}

// TestTakeoverLeavesTheStatusAsItIs: a standby counts along, so that the numbers
// are right at the moment it leads.
func TestTakeoverLeavesTheStatusAsItIs(t *testing.T) {
	leader := shared.startReady(t, elected, quick)
	first := expectLeader(t)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	revision := shared.revision(t, namespace, "timeouts-checkout")
	report := func(i int, revision string) {
		shared.reportAs(t, shared.newPod(t, namespace, fmt.Sprintf("checkout-%d", i)), checkoutClient(revision, allCapable()))
	}
	report(0, revision)
	standby := shared.startReady(t, elected, quick)
	for i := 1; i < 4; i++ {
		report(i, "sha256:0")
	}
	shared.expectStatus(t, policy, summary("1/4", "4/4"))
	// A True of this generation is latched, so look at one that is not.
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectCondition(t, policy, v1alpha1.ConditionAcknowledged, metav1.ConditionUnknown, v1alpha1.ReasonPropagating)
	leader.settle(t)

	seen := shared.verdicts(t, policy)
	leader.end(t)
	eventually(t, func() error {
		if holder, err := leaseHolder(); err != nil || holder == "" || holder == first {
			return fmt.Errorf("%q leads, %v", holder, err)
		}
		return nil
	})
	standby.settle(t)
	report(4, "sha256:0") // the new leader is at work
	shared.expectStatus(t, policy, summary("0/5", "5/5"))
	if got := seen(); len(got) != 2 {
		t.Errorf("the status went %q, want one step", got)
	}
}
