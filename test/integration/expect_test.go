package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// patience bounds every wait. It is no measure of anything: on a machine that
// does nothing else the waits end within milliseconds.
const patience = 60 * time.Second

// eventually polls until a condition has no error.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			last = condition()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("not within %s: %v", patience, last)
	}
}

// newPolicy is a policy for the client checkout with one upstream.
func newPolicy(namespace, name string, adjust ...func(*v1alpha1.TimeoutPolicy)) *v1alpha1.TimeoutPolicy {
	policy := &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	policy.Spec.Clients = []v1alpha1.ClientName{"checkout"}
	policy.Spec.Upstreams = []v1alpha1.Upstream{{
		Name:  "orders",
		Hosts: []v1alpha1.HostPattern{"orders.example.com"},
		Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: duration("1s"), Attempt: duration("400ms")}},
	}}
	for _, change := range adjust {
		change(policy)
	}
	return policy
}

func duration(text v1alpha1.Duration) *v1alpha1.Duration { return &text }

// edit changes an object and updates it, again when somebody else was faster.
func edit[T client.Object](t *testing.T, c *cluster, object T, change func(T)) {
	t.Helper()
	eventually(t, func() error {
		if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.client.Update(context.Background(), object)
	})
}

func (c *cluster) delete(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.client.Delete(context.Background(), object); err != nil {
		t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// document reads and parses a stored document, with the code of the clients.
func (c *cluster) document(namespace, name string) (*document.Document, *corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	if err := c.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, configMap); err != nil {
		return nil, nil, err
	}
	doc, err := document.Parse([]byte(configMap.Data[v1alpha1.DocumentKey]))
	return doc, configMap, err
}

// expectDocument waits until a document is as it should be.
func (c *cluster) expectDocument(t *testing.T, namespace, name string, check func(*document.Document) error) *corev1.ConfigMap {
	t.Helper()
	var configMap *corev1.ConfigMap
	eventually(t, func() error {
		doc, stored, err := c.document(namespace, name)
		if err != nil {
			return err
		}
		configMap = stored
		return check(doc)
	})
	return configMap
}

// total wants a document whose upstream has a total.
func total(upstream, want string) func(*document.Document) error {
	return func(doc *document.Document) error {
		for _, u := range doc.Upstreams {
			if u.Name == upstream && u.Timeouts != nil && u.Timeouts.Total != nil && u.Timeouts.Total.String() == want {
				return nil
			}
		}
		return fmt.Errorf("no upstream %s with total %s in %+v", upstream, want, doc.Upstreams)
	}
}

func tombstone(doc *document.Document) error {
	if !doc.Tombstone {
		return errors.New("not a tombstone")
	}
	return nil
}

// expectCondition waits until a condition has a status and a reason, for the
// generation that is stored, and returns its message.
func (c *cluster) expectCondition(t *testing.T, policy *v1alpha1.TimeoutPolicy, kind string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	message := ""
	eventually(t, func() error {
		stored := &v1alpha1.TimeoutPolicy{}
		if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(policy), stored); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(stored.Status.Conditions, kind)
		switch {
		case condition == nil:
			return fmt.Errorf("%s has no condition %s", policy.Name, kind)
		case condition.ObservedGeneration != stored.Generation:
			return fmt.Errorf("condition %s is of generation %d, not %d", kind, condition.ObservedGeneration, stored.Generation)
		case condition.Status != status || condition.Reason != reason:
			return fmt.Errorf("condition %s is %s/%s (%s), want %s/%s", kind, condition.Status, condition.Reason, condition.Message, status, reason)
		}
		message = condition.Message
		return nil
	})
	return message
}

func (c *cluster) expectProgrammed(t *testing.T, policy *v1alpha1.TimeoutPolicy) {
	t.Helper()
	c.expectCondition(t, policy, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}

// expectStatus waits until the status of a policy is as it should be.
func (c *cluster) expectStatus(t *testing.T, policy *v1alpha1.TimeoutPolicy, check func(*v1alpha1.TimeoutPolicyStatus) error) {
	t.Helper()
	eventually(t, func() error {
		stored := &v1alpha1.TimeoutPolicy{}
		if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(policy), stored); err != nil {
			return err
		}
		return check(&stored.Status)
	})
}

// expectGone waits until an object is not there any more.
func (c *cluster) expectGone(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, func() error {
		err := c.client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("%T %s is still there", object, object.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// expectEvents waits until a policy has an event with each of the reasons, and
// returns all its reasons, sorted.
func (c *cluster) expectEvents(t *testing.T, policy *v1alpha1.TimeoutPolicy, reasons ...string) []string {
	t.Helper()
	var got []string
	eventually(t, func() error {
		var events corev1.EventList
		if err := c.client.List(context.Background(), &events, client.InNamespace(policy.Namespace)); err != nil {
			return err
		}
		got = nil
		for _, event := range events.Items {
			if event.InvolvedObject.UID == policy.UID {
				got = append(got, event.Reason)
			}
		}
		slices.Sort(got)
		for _, reason := range reasons {
			if !slices.Contains(got, reason) {
				return fmt.Errorf("no event %s among %v", reason, got)
			}
		}
		return nil
	})
	return got
}

// isNotFound wants that something is not there.
func isNotFound(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is there")
	default:
		return err
	}
}

// consistently polls for a while and wants no error at any time.
func consistently(t *testing.T, while time.Duration, condition func() error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, while, true,
		func(context.Context) (bool, error) { return false, condition() })
	if err != nil && !wait.Interrupted(err) {
		t.Fatal(err)
	}
}

// waitForNextSecond waits until a new object is younger than a given one by
// creationTimestamp, which has whole seconds.
func (c *cluster) waitForNextSecond(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, func() error {
		if time.Now().Unix() <= object.GetCreationTimestamp().Unix() {
			return errors.New("still the same second")
		}
		return nil
	})
}
