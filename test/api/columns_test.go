package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// TestColumnsOfPolicies reads what kubectl get and kubectl get -o wide show.
func TestColumnsOfPolicies(t *testing.T) {
	policy := policyFrom(everything)
	policy.SetName("columns")
	storePolicy(t, policy.Object, fullStatus())

	narrow, wide := tableRow(t, policies, "columns")
	if want := "Mode=Enforce Upstreams=orders +1 Accepted=True Programmed=True Acked=11/12 Capable=10/12 Age=*"; narrow != want {
		t.Errorf("kubectl get shows\n%s\nwant\n%s", narrow, want)
	}
	if want := "Mode=Enforce Upstreams=orders +1 Accepted=True Programmed=True Acked=11/12 Capable=10/12 Total=1s Attempt=400ms Tries=3 Revision=0123456789ab Age=*"; wide != want {
		t.Errorf("kubectl get -o wide shows\n%s\nwant\n%s", wide, want)
	}
}

// storePolicy creates a policy and writes its status.
func storePolicy(t *testing.T, object map[string]any, status v1alpha1.TimeoutPolicyStatus) {
	t.Helper()
	client := cluster.Resource(policies).Namespace("default")
	p := policyFrom("{}")
	p.Object = object
	stored, err := client.Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), stored.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	stored.Object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatalf("the status cannot be written: %v", err)
	}
}

// fullStatus has every field of a status.
func fullStatus() v1alpha1.TimeoutPolicyStatus {
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: 1, LastTransitionTime: metav1.Unix(1, 0)}
	}
	return v1alpha1.TimeoutPolicyStatus{
		ObservedGeneration: 1,
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted),
			condition(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs),
			condition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed),
			condition(v1alpha1.ConditionAcknowledged, v1alpha1.ReasonAllAcknowledged),
			condition(v1alpha1.ConditionCapable, v1alpha1.ReasonAllCapable),
			condition(v1alpha1.ConditionReady, v1alpha1.ReasonReady),
		},
		Summary: v1alpha1.StatusSummary{
			Upstreams: "orders +1", Acknowledged: "11/12", Capable: "10/12",
			Total: "1s", Attempt: "400ms", Tries: "3", Revision: "0123456789ab",
		},
		Clients:            []v1alpha1.ClientStatus{{Name: "checkout", ConfigMap: "timeouts-checkout", Revision: "sha256:0", Reporting: 12, Applied: 11, Stale: 1}, {ConfigMap: "timeouts"}},
		Capabilities:       []v1alpha1.CapabilityStatus{{Name: "DeadlineCoversBody", Native: 10, Absent: 2}},
		Unsupported:        []v1alpha1.UnsupportedField{{Upstream: "orders", Field: "timeouts.connect", Capability: "TimeoutConnect", Clients: 2, Example: "checkout-1/fasthttp"}},
		DeadRetryableKinds: []v1alpha1.DeadRetryableKind{{Upstream: "orders", Kind: "WriteTimeout", Clients: 2}},
		Overridden:         []v1alpha1.OverriddenField{{Upstream: "orders", Path: "timeouts.total", By: "shop/other"}},
		Truncated:          true,
	}
}

// TestStatusIsStoredAsWritten: nothing of a status is dropped, and the lists
// keep their order, the worst first.
func TestStatusIsStoredAsWritten(t *testing.T) {
	policy := policyFrom(everything)
	policy.SetName("status")
	want := fullStatus()
	want.Capabilities = append(want.Capabilities, v1alpha1.CapabilityStatus{Name: "Aardvark", Native: 12})
	storePolicy(t, policy.Object, want)
	stored, err := cluster.Resource(policies).Namespace("default").Get(t.Context(), "status", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(plain(t, stored.Object["status"])), fmt.Sprint(plain(t, want)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestStatusListsAreBounded: a status that grew with pods would make the object
// unwritable, so the schema refuses it.
//
// Cases O16, O17.
func TestStatusListsAreBounded(t *testing.T) {
	policy := policyFrom(everything)
	policy.SetName("bounded")
	storePolicy(t, policy.Object, fullStatus())
	client := cluster.Resource(policies).Namespace("default")
	for _, list := range []string{"clients", "capabilities", "unsupported", "deadRetryableKinds", "overridden"} {
		o := get(t, client, "bounded")
		status := o.Object["status"].(map[string]any)
		first := status[list].([]any)[0]
		var items []any
		for range v1alpha1.MaxStatusItems + 1 {
			items = append(items, first)
		}
		status[list] = items
		_, err := client.UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
		wantFault(t, err, "status."+list, fmt.Sprintf("must have at most %d items", v1alpha1.MaxStatusItems))
	}
}

// tableRow returns the cells of one object as kubectl get prints them, without
// and with -o wide; cells that change with time are *.
func tableRow(t *testing.T, resource schema.GroupVersionResource, name string) (narrow, wide string) {
	t.Helper()
	c, err := rest.RESTClientFor(dynamicConfig())
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.Get().AbsPath("/apis/"+resource.Group+"/"+resource.Version+"/namespaces/default/"+resource.Resource+"/"+name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	var narrowCells, wideCells []string
	for i, column := range table.ColumnDefinitions {
		if column.Name == "Name" {
			continue
		}
		cell := fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i])
		if column.Name == "Age" {
			cell = "Age=*"
		}
		wideCells = append(wideCells, cell)
		if column.Priority == 0 {
			narrowCells = append(narrowCells, cell)
		}
	}
	return strings.Join(narrowCells, " "), strings.Join(wideCells, " ")
}
