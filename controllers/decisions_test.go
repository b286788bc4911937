package controllers

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// TestRolesAreWhatTheCodeAsksFor compares config/rbac/role.yaml with
// RequiredAccess, so that the start gate asks for the rights that the manifests
// grant: no more, no less.
func TestRolesAreWhatTheCodeAsksFor(t *testing.T) {
	data, err := os.ReadFile("../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, name := range append(rule.ResourceNames, "") {
					for _, verb := range rule.Verbs {
						if name != "" || len(rule.ResourceNames) == 0 {
							granted[strings.Join([]string{role.Namespace, rule.APIGroups[0], resource, name, verb}, "|")] = true
						}
					}
				}
			}
		}
	}
	for _, access := range RequiredAccess("timeout-system", true) {
		resource := access.Resource
		if access.Subresource != "" {
			resource += "/" + access.Subresource
		}
		for _, verb := range access.Verbs {
			key := strings.Join([]string{access.Namespace, access.Group, resource, access.Name, verb}, "|")
			if !granted[key] {
				t.Errorf("role.yaml does not grant %s", key)
			}
			delete(granted, key)
		}
	}
	for key := range granted {
		if !strings.Contains(key, "|events|") {
			t.Errorf("role.yaml grants %s, which nobody asks for", key)
		}
	}
}

func TestStoredPolicyAlwaysDecodes(t *testing.T) {
	for _, c := range []struct {
		name, json, fault string
		clients           []v1alpha1.ClientName
	}{
		{"good", `{"metadata":{"name":"a"},"spec":{"clients":["x"]}}`, "", []v1alpha1.ClientName{"x"}},
		{"wrong type inside", `{"metadata":{"name":"a"},"spec":{"clients":["x","y"],"upstreams":[{"timeouts":{"total":5}}]}}`, "cannot be read", []v1alpha1.ClientName{"x", "y"}},
		{"some clients", `{"metadata":{"name":"a"},"spec":{"clients":["x",7,"y"]}}`, "cannot be read", []v1alpha1.ClientName{"x", "y"}},
		{"no clients", `{"metadata":{"name":"a"},"spec":{"clients":"x"}}`, "cannot be read", nil},
		{"spec of text", `{"metadata":{"name":"a"},"spec":"x"}`, "cannot be read", nil},
		{"no spec", `{"metadata":{"name":"a"}}`, "", nil},
		{"strange status", `{"metadata":{"name":"a"},"spec":{"clients":["x"]},"status":7}`, "", []v1alpha1.ClientName{"x"}},
		{"letter case matters", `{"metadata":{"name":"a"},"Spec":{"clients":7}}`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list storedPolicyList
			if err := decode([]byte(`{"items":[`+c.json+`,{"metadata":{"name":"next"}}]}`), &list); err != nil {
				t.Fatal(err)
			}
			got := list.Items[0]
			if got.Name != "a" || !strings.Contains(got.fault, c.fault) || c.fault == "" && got.fault != "" || !slices.Equal(got.Spec.Clients, c.clients) {
				t.Errorf("name %q, fault %q, clients %v", got.Name, got.fault, got.Spec.Clients)
			}
			if list.Items[1].Name != "next" {
				t.Error("the next one is lost")
			}
			if deep := got.DeepCopyObject().(*storedPolicy); deep.fault != got.fault || deep.Name != got.Name {
				t.Errorf("the copy is %+v", deep)
			}
		})
	}
}

func TestStatusOfAMalformedPolicyIsRead(t *testing.T) {
	var policy storedPolicy
	if err := decode([]byte(`{"spec":7,"status":{"observedGeneration":3}}`), &policy); err != nil || policy.Status.ObservedGeneration != 3 {
		t.Errorf("%v, %+v", err, policy.Status)
	}
}

func TestStoredReportAlwaysDecodes(t *testing.T) {
	var list storedReportList
	err := decode([]byte(`{"items":[{"metadata":{"name":"a"},"clients":7},{"metadata":{"name":"b"},"clients":[{"name":"x"}]}]}`), &list)
	if err != nil || list.Items[0].Name != "a" || len(list.Items[0].statements) != 0 || len(list.Items[1].statements) != 1 {
		t.Errorf("%v, %+v", err, list)
	}
}

func FuzzStoredPolicy(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"clients":["x"]}}`))
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":[7]}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		object, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "a"}, "spec": json.RawMessage(spec), "status": json.RawMessage(spec)})
		if err != nil {
			return
		}
		var policy storedPolicy
		if err := decode(object, &policy); err != nil || policy.Name != "a" {
			t.Errorf("%s: %v", object, err)
		}
	})
}

func TestSummaryOfADocument(t *testing.T) {
	configMap := &corev1.ConfigMap{Data: map[string]string{v1alpha1.DocumentKey: `{"policies":[{"name":"b"},{"name":"a"}]}`, "other": "kept by its owner"}}
	summarizeDocument(configMap)
	once := newStoredDocument(configMap)
	summarizeDocument(configMap)
	twice := newStoredDocument(configMap)
	if once.digest == "" || once.digest != twice.digest || !slices.Equal(twice.policies, []string{"a", "b"}) || len(configMap.Data) != 2 {
		t.Errorf("once %+v, twice %+v, data %v", once, twice, configMap.Data)
	}
	missing := &corev1.ConfigMap{Data: map[string]string{"digest": once.digest}}
	summarizeDocument(missing)
	if newStoredDocument(missing).digest != "" {
		t.Error("a ConfigMap without a document has a digest")
	}
}

func TestDocumentHolds(t *testing.T) {
	document := plan.RenderedDocument{Digest: digest([]byte("x")), Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}}
	same := storedDocument{digest: digest([]byte("x")), labels: map[string]string{"l": "1", "theirs": "2"}, annotations: map[string]string{"a": "1"}}
	if !same.holds(document) {
		t.Error("what others added counts as a difference")
	}
	for _, different := range []storedDocument{
		{digest: digest([]byte("y")), labels: same.labels, annotations: same.annotations},
		{digest: same.digest, annotations: same.annotations},
		{digest: same.digest, labels: same.labels, annotations: map[string]string{"a": "2"}},
	} {
		if different.holds(document) {
			t.Errorf("%+v counts as the same", different)
		}
	}
}

func TestDocumentsAreKeptWhenTheCRDGoes(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	crd := func(age time.Duration, deleted bool) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{}
		m.CreationTimestamp = metav1.NewTime(now.Add(-age))
		if deleted {
			m.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return m
	}
	for _, c := range []struct {
		name        string
		crd         *metav1.PartialObjectMetadata
		documentAge time.Duration
		want        string
		retry       time.Duration
	}{
		{"a policy was deleted", crd(time.Hour, false), time.Minute, "", 0},
		{"the CRD is being deleted", crd(time.Hour, true), time.Minute, "is being deleted", time.Minute},
		{"the CRD is gone", nil, time.Minute, "is being deleted", time.Minute},
		{"the CRD is new, the document old", crd(time.Minute, false), time.Hour, "installed anew", 9 * time.Minute},
		{"the CRD is new, the document newer", crd(time.Minute, false), time.Second, "", 0},
		{"the grace is over", crd(reinstallGrace, false), time.Hour, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			why, retry := keepReason(c.crd, now.Add(-c.documentAge), now)
			if !strings.Contains(why, c.want) || c.want == "" && why != "" || retry != c.retry {
				t.Errorf("%q after %s, want %q after %s", why, retry, c.want, c.retry)
			}
		})
	}
}

func TestOnlyAStatusChangeWaits(t *testing.T) {
	base := func(change func(*storedPolicy)) client.Object {
		p := &storedPolicy{}
		p.UID, p.Generation, p.ResourceVersion = "u", 1, "2"
		change(p)
		return p
	}
	before := base(func(p *storedPolicy) { p.ResourceVersion = "1" })
	for _, c := range []struct {
		name   string
		change func(*storedPolicy)
		waits  bool
	}{
		{"status", func(*storedPolicy) {}, true},
		{"resync", func(p *storedPolicy) { p.ResourceVersion = "1" }, false},
		{"spec", func(p *storedPolicy) { p.Generation = 2 }, false},
		{"made anew", func(p *storedPolicy) { p.UID = types.UID("v") }, false},
		{"annotation", func(p *storedPolicy) { p.Annotations = map[string]string{"a": "1"} }, false},
		{"label", func(p *storedPolicy) { p.Labels = map[string]string{"a": "1"} }, false},
		{"deletion", func(p *storedPolicy) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
	} {
		if got := statusOnly(before, base(c.change)); got != c.waits {
			t.Errorf("%s: waits is %v", c.name, got)
		}
	}
}

func TestRepairIsToldFromUpdate(t *testing.T) {
	f := &facts{namespace: "n", documents: map[string]storedDocument{"c": {digest: "other"}}}
	document := plan.RenderedDocument{ConfigMap: "c", Digest: "x"}
	var e expectations
	if e.drifted(f, document) {
		t.Error("a new revision is no repair")
	}
	document.Current = true
	if !e.drifted(f, document) {
		t.Error("after a start the annotation tells")
	}
	e.set(f, plan.Output{Documents: []plan.RenderedDocument{document}}, nil, nil)
	f.documents = nil
	if !e.drifted(f, document) {
		t.Error("a document that was deleted is repaired")
	}
	document.Digest = "y"
	if e.drifted(f, document) {
		t.Error("an update is no repair")
	}
	e.set(f, plan.Output{Documents: []plan.RenderedDocument{document}}, map[string]string{"c": "failed"}, nil)
	if len(e.namespaces) != 0 {
		t.Errorf("what failed is remembered: %v", e.namespaces)
	}
}

func TestWritesOfANamespaceAreEachTriedOnceAndInParallel(t *testing.T) {
	for _, n := range []int{0, 1, writers, 3*writers + 1} {
		var tried [4 * writers]atomic.Int32
		together := make(chan struct{})
		var under atomic.Int32
		errs := inParallel(t.Context(), n, func(i int) error {
			tried[i].Add(1)
			// The first ones wait for each other: one worker alone would not end.
			if int(under.Add(1)) == min(n, writers) {
				close(together)
			}
			<-together
			if i%2 == 1 {
				return fmt.Errorf("write %d", i)
			}
			return nil
		})
		if len(errs) != n {
			t.Fatalf("%d results, want %d", len(errs), n)
		}
		for i, err := range errs {
			if tried[i].Load() != 1 || (err != nil) != (i%2 == 1) {
				t.Errorf("write %d of %d: tried %d times, %v", i, n, tried[i].Load(), err)
			}
		}
	}
}

func TestAnEditDoesNotAskForItsNamespace(t *testing.T) {
	f := &facts{names: map[string]bool{"a": true}, documents: map[string]storedDocument{
		"timeouts": {policies: []string{"a"}}, "timeouts-old": {policies: []string{"a", "gone"}},
	}}
	write := func(names ...string) work {
		var w work
		for _, name := range names {
			w.writes = append(w.writes, plan.RenderedDocument{ConfigMap: name})
		}
		return w
	}
	for _, c := range []struct {
		name string
		work work
		out  plan.Output
		want bool
		// postponed is what is wanted where the statuses were postponed.
		postponed bool
	}{
		{"nothing to do", work{}, plan.Output{}, false, false},
		{"an edit", write("timeouts"), plan.Output{}, false, false},
		{"a new document", write("timeouts", "timeouts-new"), plan.Output{}, true, true},
		{"a policy is gone", write("timeouts-old"), plan.Output{}, true, true},
		{"a tombstone goes", work{deletions: []string{"timeouts-old"}}, plan.Output{}, true, true},
		{"an event", work{}, plan.Output{Events: []plan.Event{{Policy: "a"}}}, true, false},
	} {
		if got := mayCreate(f, c.out, c.work, true); got != c.postponed {
			t.Errorf("%s, statuses postponed: %t, want %t", c.name, got, c.postponed)
		}
		if got := mayCreate(f, c.out, c.work, false); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// Ten thousand policies that are rendered for the first time are no ten thousand
// events, but what is wrong is always said.
func TestGoodNewsIsBoundedAndBadNewsIsNot(t *testing.T) {
	recorder := &FakeRecorder{}
	r := &TimeoutPolicyReconciler{Recorder: recorder, goodNews: newGoodNews()}
	var all []plan.Event
	for range 2 * goodNewsBurst {
		all = append(all, plan.Event{Policy: "p", Reason: "Good"}, plan.Event{Policy: "p", Reason: "Bad", Warning: true})
	}
	r.emit(&facts{namespace: "n"}, &plan.PolicyStatus{Name: "p"}, all)
	counts := map[string]int{}
	for _, reason := range recorder.reasons["p"] {
		counts[reason]++
	}
	if counts["Bad"] != 2*goodNewsBurst || counts["Good"] < goodNewsBurst || counts["Good"] == 2*goodNewsBurst {
		t.Errorf("events are %v", counts)
	}
}

func TestTheCacheKeepsOneCopyOfASpec(t *testing.T) {
	annotations := map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{}}`, "example.com/look": "again"}
	policy := &storedPolicy{}
	policy.Annotations = annotations
	policy.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	if _, err := transform(stripPolicy)(policy); err != nil {
		t.Fatal(err)
	}
	if len(policy.ManagedFields) != 0 || len(policy.Annotations) != 1 || policy.Annotations["example.com/look"] != "again" {
		t.Errorf("kept %v, %v", policy.ManagedFields, policy.Annotations)
	}
	if len(annotations) != 2 {
		t.Error("the map of somebody else was changed")
	}
}
