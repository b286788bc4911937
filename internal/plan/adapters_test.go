package plan_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// A client may call one upstream by net/http and another one by gRPC. Each adapter
// speaks for itself, and the pod counts once.
func TestEachAdapterOfAClientCounts(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour,
		`{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, connect: 100ms, responseHeader: 1s},
		retry: {maxAttempts: 2, retryableKinds: [WriteTimeout, PoolTimeout]}}]}`))
	in = store(in, plan.Plan(in))
	current := has(revisionOf(t, plan.Plan(in), "web"))
	with := func(connect, header v1alpha1.CapabilityLevel) levels {
		all := maps.Clone(full)
		all["TimeoutConnect"], all["TimeoutResponseHeader"] = connect, header
		return all
	}
	// dead says which retryable kinds an adapter never ends with.
	dead := func(adapter string, kinds ...v1alpha1.ReportedWord) func(*v1alpha1.ReportedClient) {
		return func(c *v1alpha1.ReportedClient) {
			c.Upstreams = append(c.Upstreams, v1alpha1.ReportedUpstream{Name: "orders", Adapter: adapter, DeadKinds: kinds})
		}
	}
	in.Reports = []v1alpha1.ClientReport{
		report("a", "web", current,
			can("nethttp", with(v1alpha1.LevelEmulated, v1alpha1.LevelEmulated)), dead("nethttp", "WriteTimeout"),
			can("grpc", with(v1alpha1.LevelAbsent, v1alpha1.LevelAbsent)), dead("grpc", "WriteTimeout", "PoolTimeout")),
		report("b", "web", current, can("grpc", with(v1alpha1.LevelAbsent, v1alpha1.LevelEmulated)), dead("grpc", "WriteTimeout")),
		report("c", "web", current, can("nethttp", with(v1alpha1.LevelEmulated, v1alpha1.LevelEmulated))),
	}
	out := plan.Plan(in)
	s := statusOf(t, out, "x")
	if want := []v1alpha1.UnsupportedField{
		{Upstream: "orders", Field: "timeouts.connect", Capability: "TimeoutConnect", Clients: 2, Example: "a/grpc"},
		{Upstream: "orders", Field: "timeouts.responseHeader", Capability: "TimeoutResponseHeader", Clients: 1, Example: "a/grpc"},
	}; !reflect.DeepEqual(s.Unsupported, want) {
		t.Errorf("unsupported\n got  %+v\n want %+v", s.Unsupported, want)
	}
	if want := []v1alpha1.DeadRetryableKind{
		{Upstream: "orders", Kind: "WriteTimeout", Clients: 2, Example: "a/grpc"},
		{Upstream: "orders", Kind: "PoolTimeout", Clients: 1, Example: "a/grpc"},
	}; !reflect.DeepEqual(s.DeadRetryableKinds, want) {
		t.Errorf("dead kinds\n got  %+v\n want %+v", s.DeadRetryableKinds, want)
	}
	if want := (v1alpha1.CapabilityStatus{Name: "TimeoutConnect", Emulated: 1, Absent: 2}); s.Capabilities[0] != want {
		t.Errorf("capabilities\n got  %+v\n want %+v first", s.Capabilities, want)
	}
	if s.Summary.Capable != "1/3" {
		t.Errorf("capable is %q, want 1/3", s.Summary.Capable)
	}
	// The worst first, whatever its kind.
	wantCondition(t, out, "x", "Capable", isFalse, v1alpha1.ReasonMissingCapability,
		"2 of 3 clients cannot enforce all of it: timeouts.connect of orders (TimeoutConnect, 2 clients, such as a/grpc); "+
			"retryable kind WriteTimeout of orders never occurs (2 clients, such as a/grpc); timeouts.responseHeader of orders")
}

func TestARefusalNamesClientPodAdapterAndField(t *testing.T) {
	in := input(newPolicy(t, "x", time.Hour, forWeb))
	in = store(in, plan.Plan(in))
	in.Reports = []v1alpha1.ClientReport{report("a", "web", has("sha256:old"), says("x", v1alpha1.PolicyRejected), func(c *v1alpha1.ReportedClient) {
		c.Policies[0].Reason = "Unsupported"
		c.Policies[0].Message = "upstream orders: adapter grpc cannot honour timeouts.connect (TimeoutConnect)" + strings.Repeat("\n", 3)
	})}
	wantCondition(t, plan.Plan(in), "x", "Acknowledged", isFalse, v1alpha1.ReasonRejected,
		"client web in pod a: Unsupported: upstream orders: adapter grpc cannot honour timeouts.connect (TimeoutConnect)")
}
