package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// withContent gives a workload's report another content, in YAML.
func withContent(t *testing.T, w *workload, content string) *unstructured.Unstructured {
	t.Helper()
	o := w.report()
	delete(o.Object, "clients")
	delete(o.Object, "library")
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(content), &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		o.Object[name] = value
	}
	return o
}

func TestReportsAreTakenAsTheyCome(t *testing.T) {
	w := newWorkload(t, namespace(t), "checkout-1")
	for _, test := range []struct{ name, content string }{
		{"no client yet", "library: {name: clientlib}"},
		{"a client in fallback", "library: {name: clientlib}\nclients: [{name: checkout, delivery: Static, state: Fallback, reason: SourceGone, message: no document}]"},
		{"a client name that is no label", "library: {name: clientlib}\nclients: [{name: My Client, delivery: Mount, state: Ready}]"},
		{"words of a newer library", "library: {name: clientlib}\nclients: [{name: a, delivery: Watch, state: Ready, adapters: [{name: quic, capabilities: {ZeroRTT: Native}, emits: [QUICError]}]}]"},
		{"a library in another language", "library: {name: timeouts-py, version: 1.0.0rc1}\nclients: [{name: a, delivery: Poll, state: Stale, reason: invalid-update}]"},
		{"gaps", "library: {name: clientlib}\nclients: [{name: a, delivery: Mount, state: Ready, upstreams: [{name: orders, adapter: nethttp, unsupported: [{field: timeouts.connect, capability: TimeoutConnect}], deadKinds: [WriteTimeout]}]}]"},
		{"a policy that was refused", "library: {name: clientlib}\nclients: [{name: a, delivery: Mount, state: Stale, policies: [{namespace: shop, name: checkout, generation: 2, state: Rejected, reason: Unsupported, message: no such field}]}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := w.apply(t, withContent(t, w, test.content)); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestReportsBeyondTheirBoundsAreRefused(t *testing.T) {
	w := newWorkload(t, namespace(t), "checkout-1")
	items := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	client := func(fields string) string {
		return "library: {name: clientlib}\nclients: [{name: a, delivery: Mount, state: Ready, " + fields + "}]"
	}
	for _, test := range []struct{ name, content, field, message string }{
		{"no library", "clients: []", "library", "Required value"},
		{"no state", "library: {name: a}\nclients: [{name: a, delivery: Mount}]", "clients[0].state", "Required value"},
		{"an unknown state", "library: {name: a}\nclients: [{name: a, delivery: Mount, state: Fine}]", "clients[0].state", `supported values: "Ready", "Stale", "Fallback"`},
		{"an unknown delivery", "library: {name: a}\nclients: [{name: a, delivery: Pigeon, state: Ready}]", "clients[0].delivery", `supported values: "Mount", "Poll", "Watch", "Static"`},
		{"17 clients", "library: {name: a}\nclients: " + items(17, "{name: c#, delivery: Mount, state: Ready}"), "clients", "must have at most 16 items"},
		{"65 policies", client("policies: " + items(65, "{namespace: a, name: p#, generation: 1, state: Applied}")), "clients[0].policies", "must have at most 64 items"},
		{"an unknown policy state", client("policies: [{namespace: a, name: p, generation: 1, state: Done}]"), "clients[0].policies[0].state", `supported values: "Applied", "Rejected", "Stale"`},
		{"9 adapters", client("adapters: " + items(9, "{name: a#}")), "clients[0].adapters", "must have at most 8 items"},
		{"an unknown level", client("adapters: [{name: a, capabilities: {TimeoutTotal: Perhaps}}]"), "clients[0].adapters[0].capabilities.TimeoutTotal", `supported values: "Native", "Emulated", "Degraded", "Absent"`},
		{"a long capability", client("adapters: [{name: a, capabilities: {" + strings.Repeat("C", 65) + ": Native}}]"), "clients[0].adapters[0].capabilities", "the name of a capability has at most 64 characters: shorten it"},
		{"33 kinds", client("adapters: [{name: a, emits: " + items(33, "K#") + "}]"), "clients[0].adapters[0].emits", "must have at most 32 items"},
		{"65 upstreams", client("upstreams: " + items(65, "{name: u#, adapter: a}")), "clients[0].upstreams", "must have at most 64 items"},
		{"a message of 257 characters", client("message: " + strings.Repeat("m", 257)), "clients[0].message", "may not be more than 256"},
		{"257 policies and upstreams", "library: {name: a}\nclients: [" + strings.Join([]string{
			"{name: a, delivery: Mount, state: Ready, policies: " + items(64, "{namespace: a, name: p#, generation: 1, state: Applied}") + ", upstreams: " + items(64, "{name: u#, adapter: a}") + "}",
			"{name: b, delivery: Mount, state: Ready, policies: " + items(64, "{namespace: a, name: p#, generation: 1, state: Applied}") + ", upstreams: " + items(64, "{name: u#, adapter: a}") + "}",
			"{name: c, delivery: Mount, state: Ready, upstreams: [{name: u, adapter: a}]}",
		}, ", ") + "]", "<nil>", "a report has at most 256 policies and upstreams together: leave out the ones without a gap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := w.apply(t, withContent(t, w, test.content))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.message) || !strings.Contains(err.Error(), test.field+": ") {
				t.Errorf("want a fault at %s that says %q, got %v", test.field, test.message, err)
			}
		})
	}
	wantNoReport(t, w.pod.Namespace, w.pod.Name)
}

// TestAReportOfOneMebibyteIsRefused, wherever its bytes stand.
func TestAReportOfOneMebibyteIsRefused(t *testing.T) {
	w := newWorkload(t, namespace(t), "checkout-1")
	long := strings.Repeat("x", 1<<20)
	t.Run("in a text", func(t *testing.T) {
		err := w.apply(t, withContent(t, w, "library: {name: clientlib, version: "+long+"}"))
		wantDocumented(t, "1 MiB in a text", err)
	})
	t.Run("in many entries", func(t *testing.T) {
		entry := "{namespace: a, name: p, generation: 1, state: Applied, message: " + strings.Repeat("m", 256) + "}"
		err := w.apply(t, withContent(t, w, "library: {name: a}\nclients: [{name: a, delivery: Mount, state: Ready, policies: ["+strings.Repeat(entry+", ", 1<<20/len(entry))+entry+"]}]"))
		wantDocumented(t, "1 MiB in many entries", err)
	})
	t.Run("in an annotation", func(t *testing.T) {
		err := w.apply(t, withAnnotations(w.report(), 1, 200<<10))
		wantForbidden(t, err, "a ClientReport carries at most 16 labels and 16 annotations")
		wantDocumented(t, "1 MiB in an annotation", err)
	})
	t.Run("in a field that does not exist", func(t *testing.T) {
		err := w.apply(t, withContent(t, w, "library: {name: a}\nextra: "+long))
		wantDocumented(t, "1 MiB in a field that does not exist", err)
	})
	wantNoReport(t, w.pod.Namespace, w.pod.Name)
}

func TestColumnsOfReports(t *testing.T) {
	if _, err := core.CoreV1().ServiceAccounts("default").Get(t.Context(), "app", metav1.GetOptions{}); apierrors.IsNotFound(err) {
		sa, _ := core.CoreV1().ServiceAccounts(namespace(t)).Get(t.Context(), "app", metav1.GetOptions{})
		sa.ObjectMeta = metav1.ObjectMeta{Name: "app"}
		if _, err := core.CoreV1().ServiceAccounts("default").Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorkload(t, "default", "checkout-columns")
	if err := w.apply(t, w.report()); err != nil {
		t.Fatal(err)
	}
	narrow, wide := tableRow(t, reports, w.pod.Name)
	if want := "Clients=checkout Delivery=Mount State=Ready Age=*"; narrow != want {
		t.Errorf("kubectl get shows %s, want %s", narrow, want)
	}
	if want := "Clients=checkout Delivery=Mount State=Ready Library=v0.1.0 Age=*"; wide != want {
		t.Errorf("kubectl get -o wide shows %s, want %s", wide, want)
	}
}

// TestWorkloadsMayWriteReportsAndNothingElse asks the authorizer.
func TestWorkloadsMayWriteReportsAndNothingElse(t *testing.T) {
	for _, test := range []struct {
		verb, resource string
		want           bool
	}{
		{"create", "clientreports", true}, {"get", "clientreports", true}, {"patch", "clientreports", true},
		{"update", "clientreports", false}, {"list", "clientreports", false}, {"watch", "clientreports", false},
		{"delete", "clientreports", false}, {"deletecollection", "clientreports", false},
		{"get", "timeoutpolicies", false}, {"list", "timeoutpolicies", false}, {"create", "timeoutpolicies", false}, {"patch", "timeoutpolicies", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:shop:app", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: test.verb, Group: v1alpha1.Group, Resource: test.resource},
		}}
		review, err := core.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != test.want {
			t.Errorf("%s %s: allowed %v, want %v", test.verb, test.resource, review.Status.Allowed, test.want)
		}
	}
}

// TestReportsQueueUpBehindThemselves: the API server sorts writes of reports
// into their own flow, and leaves everything else of a workload where it was.
func TestReportsQueueUpBehindThemselves(t *testing.T) {
	schema, err := core.FlowcontrolV1().FlowSchemas().Get(t.Context(), "timeout-operator-reports", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	level, err := core.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "timeout-operator-reports", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkload(t, namespace(t), "checkout-1")
	headers := func(method, path string) http.Header {
		c := rest.AnonymousClientConfig(config)
		c.BearerToken = w.token
		client, err := rest.HTTPClientFor(c)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.Header
	}
	const collection = "/apis/timeout-operator.dev/v1alpha1/namespaces/shop/clientreports"
	for _, call := range []struct{ method, path string }{{http.MethodPost, collection}, {http.MethodGet, collection + "/a"}, {http.MethodPatch, collection + "/a"}} {
		h := headers(call.method, call.path)
		if h.Get("X-Kubernetes-PF-FlowSchema-UID") != string(schema.UID) || h.Get("X-Kubernetes-PF-PriorityLevel-UID") != string(level.UID) {
			t.Errorf("%s %s is not in the flow of reports", call.method, call.path)
		}
	}
	if h := headers(http.MethodGet, "/api/v1/namespaces/shop/configmaps/a"); h.Get("X-Kubernetes-PF-FlowSchema-UID") == string(schema.UID) {
		t.Error("other requests of a workload are in the flow of reports")
	}
	for _, c := range schema.Status.Conditions {
		if c.Type == "Dangling" && c.Status == "True" {
			t.Errorf("the flow schema is dangling: %s", c.Message)
		}
	}
}
