package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// now is when every test plans.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPolicy makes a policy of namespace shop from the YAML of its spec. It is
// at generation 1, has its name as UID and was created age ago.
func newPolicy(t testing.TB, name string, age time.Duration, spec string) v1alpha1.TimeoutPolicy {
	t.Helper()
	p := v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace:         "shop",
		Name:              name,
		UID:               types.UID("uid-" + name),
		Generation:        1,
		CreationTimestamp: metav1.NewTime(now.Add(-age)),
	}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("spec of %s: %v", name, err)
	}
	return p
}

// input plans the given policies of namespace shop.
func input(policies ...v1alpha1.TimeoutPolicy) plan.Input {
	return plan.Input{Namespace: "shop", Policies: policies, Now: now}
}

// existing turns the documents of a plan into those that are stored later.
func existing(out plan.Output) []plan.ExistingDocument {
	var stored []plan.ExistingDocument
	for _, d := range out.Documents {
		since, _ := time.Parse(time.RFC3339, d.Annotations[plan.AnnotationSince])
		stored = append(stored, plan.ExistingDocument{
			ConfigMap: d.ConfigMap,
			Client:    d.Labels[v1alpha1.LabelDocument],
			Revision:  d.Annotations[v1alpha1.AnnotationRevision],
			Tombstone: d.Annotations[plan.AnnotationTombstone] == "true",
			Since:     since,
		})
	}
	return stored
}

// store puts the result of a plan back into its input, as an API server gives
// it back: what JSON cannot tell apart is the same.
func store(in plan.Input, out plan.Output) plan.Input {
	in.Existing = existing(out)
	for i := range in.Policies {
		for _, s := range out.Statuses {
			if s.Name != in.Policies[i].Name {
				continue
			}
			data, err := json.Marshal(s.Status)
			if err != nil {
				panic(err)
			}
			in.Policies[i].Status = v1alpha1.TimeoutPolicyStatus{}
			if err := json.Unmarshal(data, &in.Policies[i].Status); err != nil {
				panic(err)
			}
		}
	}
	return in
}

// documentOf parses the document of a client.
func documentOf(t testing.TB, out plan.Output, client string) *document.Document {
	t.Helper()
	for _, d := range out.Documents {
		if d.Client == client {
			doc, err := document.Parse(d.Data)
			if err != nil {
				t.Fatalf("document of client %q: %v", client, err)
			}
			return doc
		}
	}
	t.Fatalf("no document for client %q", client)
	return nil
}

// rulesFor looks a GET of a URL's host and path up.
func rulesFor(t testing.TB, out plan.Output, client, host string, port uint16, path string) (document.Rules, map[string]string) {
	t.Helper()
	u, r := documentOf(t, out, client).Lookup(host, port, document.Call{Method: "GET", Path: path})
	switch {
	case u == nil:
		t.Fatalf("client %q: nothing matches %s:%d", client, host, port)
		return document.Rules{}, nil
	case r != nil:
		return r.Rules, r.Provenance
	default:
		return u.Rules, u.Provenance
	}
}

func statusOf(t testing.TB, out plan.Output, name string) v1alpha1.TimeoutPolicyStatus {
	t.Helper()
	for _, s := range out.Statuses {
		if s.Name == name {
			return s.Status
		}
	}
	t.Fatalf("no status for %s", name)
	return v1alpha1.TimeoutPolicyStatus{}
}

func conditionOf(t testing.TB, out plan.Output, name, conditionType string) metav1.Condition {
	t.Helper()
	status := statusOf(t, out, name)
	for _, c := range status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	t.Fatalf("%s has no condition %s", name, conditionType)
	return metav1.Condition{}
}

// wantCondition checks status, reason and a part of the message.
func wantCondition(t testing.TB, out plan.Output, name, conditionType string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c := conditionOf(t, out, name, conditionType)
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("%s of %s is %s/%s %q, want %s/%s with %q", conditionType, name, c.Status, c.Reason, c.Message, status, reason, message)
	}
}

// report of a pod of namespace shop, with one client that says what it has.
func report(pod, client string, edit ...func(*v1alpha1.ReportedClient)) v1alpha1.ClientReport {
	r := v1alpha1.ClientReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Library:    v1alpha1.ReportedLibrary{Name: "clientlib", Version: "v0.1.0"},
		Clients: []v1alpha1.ReportedClient{{
			Name:     client,
			Delivery: v1alpha1.DeliveryMount,
			State:    v1alpha1.StateReady,
		}},
	}
	for _, e := range edit {
		e(&r.Clients[0])
	}
	return r
}

// has says that a client has a revision in force.
func has(revision string) func(*v1alpha1.ReportedClient) {
	return func(c *v1alpha1.ReportedClient) { c.Revision = revision }
}

// says adds what a client did with generation 1 of a policy.
func says(policy string, state v1alpha1.PolicyState) func(*v1alpha1.ReportedClient) {
	return func(c *v1alpha1.ReportedClient) {
		c.Policies = append(c.Policies, v1alpha1.ReportedPolicy{
			Namespace: "shop", Name: policy, UID: "uid-" + policy, Generation: 1, State: state,
			Reason: "MissingCapability", Message: "adapter nethttp cannot honour it",
		})
	}
}

// can adds an adapter with capabilities.
func can(adapter string, capabilities map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel) func(*v1alpha1.ReportedClient) {
	return func(c *v1alpha1.ReportedClient) {
		c.Adapters = append(c.Adapters, v1alpha1.ReportedAdapter{Name: adapter, Capabilities: capabilities})
	}
}

// revisionOf is the revision of a client's document.
func revisionOf(t testing.TB, out plan.Output, client string) string {
	t.Helper()
	for _, d := range out.Documents {
		if d.Client == client {
			return d.Revision
		}
	}
	t.Fatalf("no document for client %q", client)
	return ""
}

func call(method, path string) document.Call { return document.Call{Method: method, Path: path} }
