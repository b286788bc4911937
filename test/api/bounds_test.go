package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestObjectsAtTheirBoundsAreJudgedInFull sends the largest objects: the rules'
// budgets at run time suffice, so that the last fault of such an object is
// found and no sound one is refused for its size.
func TestObjectsAtTheirBoundsAreJudgedInFull(t *testing.T) {
	for _, test := range []struct {
		name                                   string
		clients, upstreams, hosts, routes      int
		hostLength, pathLength, methodsPerEach int
	}{
		{name: "lists", clients: 64, upstreams: 64, hosts: 16, routes: 16, hostLength: 20, pathLength: 10, methodsPerEach: 1},
		{name: "hosts", clients: 64, upstreams: 64, hosts: 16, routes: 0, hostLength: 262},
		{name: "matches", clients: 1, upstreams: 16, hosts: 1, routes: 16, hostLength: 20, pathLength: 1024, methodsPerEach: 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			largest := func() *unstructured.Unstructured {
				var upstreams []any
				for i := range test.upstreams {
					upstreams = append(upstreams, largeUpstream(i, test.hosts, test.hostLength, test.routes, test.pathLength, test.methodsPerEach))
				}
				var clients []any
				for i := range test.clients {
					clients = append(clients, label(63, i))
				}
				p := policyFrom("{}")
				p.Object["spec"] = map[string]any{"clients": clients, "upstreams": upstreams,
					"defaults": map[string]any{"timeouts": map[string]any{"bodyIdle": "1s"}}}
				return p
			}
			sound := largest()
			warnings, err := tryPolicy(t.Context(), sound)
			if err != nil {
				t.Fatalf("a sound policy at its bounds is refused: %v", err)
			}
			if len(warnings) != 0 {
				t.Errorf("want no warning, got %.3000s", strings.Join(warnings, "\n"))
			}
			t.Logf("the policy has %d bytes", size(t, sound))

			bad := largest()
			last := bad.Object["spec"].(map[string]any)["upstreams"].([]any)[test.upstreams-1].(map[string]any)
			last["hosts"].([]any)[test.hosts-1] = "*"
			_, err = tryPolicy(t.Context(), bad)
			wantFault(t, err, fmt.Sprintf("spec.upstreams[%d].hosts[%d]", test.upstreams-1, test.hosts-1), wantHost)
		})
	}
}

// label is a DNS label of n characters that ends in the number.
func label(n, number int) string {
	tail := fmt.Sprintf("%d", number)
	return strings.Repeat("a", n-len(tail)) + tail
}

// largeHost is a host pattern of at most n characters.
func largeHost(n, upstream, host int) string {
	const port = ":65535"
	tail := fmt.Sprintf(".u%dh%d.", upstream, host) + port
	name := strings.Repeat(strings.Repeat("a", 63)+".", 4)[:n-len(tail)-2]
	return "*." + strings.TrimSuffix(name, ".") + tail
}

func largeUpstream(i, hosts, hostLength, routes, pathLength, methods int) map[string]any {
	limits := func() map[string]any {
		return map[string]any{
			"timeouts": map[string]any{"total": "99999h", "attempt": "99998h59m59s999ms", "connect": "99998h59m59s999ms", "responseHeader": "99998h59m59s999ms"},
			"retry":    map[string]any{"maxAttempts": int64(2), "backoff": map[string]any{"initial": "1h1m1s1ms", "max": "99998h59m59s999ms"}},
		}
	}
	u := limits()
	u["name"] = label(63, i)
	u["service"] = map[string]any{"name": label(63, i), "namespace": label(63, 0), "port": int64(65535)}
	var list []any
	for h := range hosts {
		list = append(list, largeHost(hostLength, i, h))
	}
	u["hosts"] = list
	var routeList []any
	for r := range routes {
		route := limits()
		var names []any
		for m := range methods {
			names = append(names, strings.Repeat("M", 60)+fmt.Sprintf("%d", 1000+m))
		}
		route["name"] = label(63, r)
		route["match"] = map[string]any{"path": "/" + label(pathLength-1, r), "methods": names}
		routeList = append(routeList, route)
	}
	if routes > 0 {
		u["routes"] = routeList
	}
	return u
}

func size(t *testing.T, o any) int {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// TestListsBeyondTheirBoundsAreRefused holds one object against each bound of a
// list or text.
func TestListsBeyondTheirBoundsAreRefused(t *testing.T) {
	many := func(n int, each func(i int) string) string {
		var items []string
		for i := range n {
			items = append(items, each(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	names := func(prefix string) func(int) string {
		return func(i int) string { return fmt.Sprintf("%s%d", prefix, i) }
	}
	for _, test := range []struct{ name, spec, field, message string }{
		{"clients", "clients: " + many(65, names("c")) + "\nupstreams: [{name: a, hosts: [a]}]", "spec.clients", "must have at most 64 items"},
		{"upstreams", "upstreams: " + many(65, func(i int) string { return fmt.Sprintf("{name: u%d, hosts: [h%d]}", i, i) }), "spec.upstreams", "must have at most 64 items"},
		{"hosts", "upstreams: [{name: a, hosts: " + many(17, names("h")) + "}]", "spec.upstreams[0].hosts", "must have at most 16 items"},
		{"routes", upstreamWith("routes: " + many(17, func(i int) string { return fmt.Sprintf("{name: r%d, match: {path: /r%d}}", i, i) })), "spec.upstreams[0].routes", "must have at most 16 items"},
		{"methods of a match", upstreamWith("routes: [{name: r, match: {methods: " + many(17, names("M")) + "}}]"), "spec.upstreams[0].routes[0].match.methods", "must have at most 16 items"},
		{"methods of a retry", upstreamWith("retry: {methods: " + many(17, names("M")) + "}"), "spec.upstreams[0].retry.methods", "must have at most 16 items"},
		{"status codes", upstreamWith("retry: {retryableStatusCodes: " + many(33, func(i int) string { return fmt.Sprint(500 + i) }) + "}"), "spec.upstreams[0].retry.retryableStatusCodes", "must have at most 32 items"},
		{"idempotency headers", upstreamWith("retry: {idempotencyHeaders: " + many(9, names("H")) + "}"), "spec.upstreams[0].retry.idempotencyHeaders", "must have at most 8 items"},
		{"a host of 263 characters", "upstreams: [{name: a, hosts: [" + strings.Repeat("a", 263) + "]}]", "spec.upstreams[0].hosts[0]", "may not be more than 262"},
		{"a duration of 29 characters", upstreamWith("timeouts: {total: " + strings.Repeat("0", 28) + "s}"), "spec.upstreams[0].timeouts.total", "may not be more than 28"},
		{"a gRPC service of 254 characters", upstreamWith("routes: [{name: r, match: {grpc: {service: " + strings.Repeat("s", 254) + "}}}]"), "spec.upstreams[0].routes[0].match.grpc.service", "may not be more than 253"},
		{"a deadline header of 65 characters", upstreamWith("deadline: {header: " + strings.Repeat("h", 65) + "}"), "spec.upstreams[0].deadline.header", "may not be more than 64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryPolicy(t.Context(), policyFrom(test.spec))
			list := faults(t, err)
			if !strings.HasPrefix(list[0], test.field+": ") || !strings.Contains(list[0], test.message) {
				t.Errorf("want a fault at %s that says %q, got:\n%s", test.field, test.message, strings.Join(list, "\n"))
			}
		})
	}
}

// TestCostBudgetHolds: the API server took both definitions, with every list at
// its bound in its estimate, and serves them.
//
// Case A30.
func TestCostBudgetHolds(t *testing.T) {
	client, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"timeoutpolicies", "clientreports"} {
		crd, err := client.CustomResourceDefinitions().Get(t.Context(), resource+".timeout-operator.dev", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions := map[string]string{}
		for _, c := range crd.Status.Conditions {
			conditions[string(c.Type)] = string(c.Status)
		}
		if conditions["Established"] != "True" || conditions["NamesAccepted"] != "True" || conditions["NonStructuralSchema"] == "True" {
			t.Errorf("%s: want it established with a structural schema, got %v", resource, conditions)
		}
	}
}

// TestPoliciesOverTheRequestLimitAreRefusedWhole: bounds multiply to more than
// the API server takes in one object; it says so and stores nothing.
func TestPoliciesOverTheRequestLimitAreRefusedWhole(t *testing.T) {
	p := policyFrom("upstreams: [{name: a, hosts: [a]}]")
	p.SetName("too-large")
	p.SetAnnotations(map[string]string{"note": strings.Repeat("a", 4<<20)})
	client := cluster.Resource(policies).Namespace("default")
	if _, err := client.Create(t.Context(), p, metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) && !apierrors.IsInvalid(err) {
		t.Errorf("want it refused for its size, got %v", err)
	}
	if _, err := client.Get(t.Context(), "too-large", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("want nothing stored, got %v", err)
	}
}
