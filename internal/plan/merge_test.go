package plan_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// spec is a policy of a merge table.
type spec struct {
	name string
	age  time.Duration
	yaml string
}

func policiesOf(t testing.TB, specs []spec) []v1alpha1.TimeoutPolicy {
	t.Helper()
	var policies []v1alpha1.TimeoutPolicy
	for _, s := range specs {
		policies = append(policies, newPolicy(t, s.name, s.age, s.yaml))
	}
	return policies
}

// Each case asks one question of a document: what holds for this request, and
// where does each value come from. "value <- policy" by path.
//
// Cases A08, A09, A14, A17, A22, A23, A28.
func TestMerge(t *testing.T) {
	const host = "orders.example.com"
	for _, test := range []struct {
		name     string
		policies []spec
		client   string
		host     string
		port     uint16
		call     document.Call
		want     map[string]string
	}{
		{
			name: "an upstream goes before the defaults of its policy, a route before both",
			policies: []spec{{"a", 0, `
defaults: {timeouts: {total: 5s, attempt: 1s}, retry: {maxAttempts: 3}}
upstreams:
- name: orders
  hosts: [orders.example.com]
  timeouts: {total: 2s}
  routes:
  - {name: refunds, match: {path: /refunds}, timeouts: {total: 10s}, retry: {maxAttempts: 1}}
`}},
			call: document.Call{Path: "/refunds/7"},
			want: map[string]string{"timeouts.total": "10s <- a", "timeouts.attempt": "1s <- a", "retry.maxAttempts": "1 <- a"},
		},
		{
			name: "a policy that names the client goes before one that names none, field by field",
			policies: []spec{
				{"named", time.Hour, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`},
				{"wide", 2 * time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 9s, bodyIdle: 2s}}]}`},
			},
			client: "web",
			want:   map[string]string{"timeouts.total": "1s <- named", "timeouts.bodyIdle": "2s <- wide"},
		},
		{
			// envoyproxy/gateway#4426.
			name: "a policy that sets only a breaker leaves the timeout of another level alone",
			policies: []spec{
				{"namespace", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 130s}}]}`},
				{"workload", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], circuitBreaker: {failures: 7}}]}`},
			},
			client: "web",
			want:   map[string]string{"timeouts.total": "2m10s <- namespace", "circuitBreaker.failures": "7 <- workload"},
		},
		{
			// kumahq/kuma#6426, the destination that is meant.
			name: "a policy for one destination changes that one",
			policies: []spec{
				{"mesh", time.Hour, `{upstreams: [{name: all, hosts: ["*.example.com"], retry: {maxAttempts: 2}}]}`},
				{"x", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 6}}]}`},
			},
			want: map[string]string{"retry.maxAttempts": "6 <- x"},
		},
		{
			// kumahq/kuma#6426, the others.
			name: "a policy for one destination leaves the others alone",
			policies: []spec{
				{"mesh", time.Hour, `{upstreams: [{name: all, hosts: ["*.example.com"], retry: {maxAttempts: 2}}]}`},
				{"x", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 6}}]}`},
			},
			host: "stock.example.com",
			want: map[string]string{"retry.maxAttempts": "2 <- mesh"},
		},
		{
			// projectcontour/contour#6373.
			name: "no limit takes an inherited limit away and is not the same as nothing",
			policies: []spec{
				{"base", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 15s, attempt: 1s}}]}`},
				{"long", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 0s}}]}`},
			},
			client: "web",
			want:   map[string]string{"timeouts.total": "0s <- long", "timeouts.attempt": "1s <- base"},
		},
		{
			// envoyproxy/gateway#4172.
			name:     "an attempt never becomes a total",
			policies: []spec{{"a", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {attempt: 1s}, retry: {maxAttempts: 4}}]}`}},
			want:     map[string]string{"timeouts.attempt": "1s <- a", "retry.maxAttempts": "4 <- a"},
		},
		{
			// projectcontour/contour#5944.
			name: "one attempt means one, also where more would be inherited",
			policies: []spec{
				{"base", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 3}}]}`},
				{"once", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 1}}]}`},
			},
			client: "web",
			want:   map[string]string{"retry.maxAttempts": "1 <- once"},
		},
		{
			// istio/istio#50506.
			name:     "methods are not written where no policy says them, so that only idempotent ones repeat",
			policies: []spec{{"a", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 3}}]}`}},
			call:     document.Call{Method: "POST"},
			want:     map[string]string{"retry.maxAttempts": "3 <- a"},
		},
		{
			name: "lists are replaced as a whole, an empty one too",
			policies: []spec{
				{"base", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], retry: {maxAttempts: 3, retryableKinds: [ReadTimeout, Disconnected], retryableStatusCodes: [503]}}]}`},
				{"web", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], retry: {retryableKinds: [ConnectError], retryableStatusCodes: []}}]}`},
			},
			client: "web",
			want:   map[string]string{"retry.maxAttempts": "3 <- base", "retry.retryableKinds": "ConnectError <- web", "retry.retryableStatusCodes": " <- web"},
		},
		{
			name: "a header can be taken away",
			policies: []spec{
				{"base", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], deadline: {header: X-Deadline-Ms, reserve: 20ms}}]}`},
				{"web", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], deadline: {header: ""}}]}`},
			},
			client: "web",
			want:   map[string]string{"deadline.reserve": "20ms <- base", "deadline.header": "absent <- web"},
		},
		{
			name:     "an empty breaker block is a breaker",
			policies: []spec{{"a", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], circuitBreaker: {}}]}`}},
			want:     map[string]string{"circuitBreaker": "{} <- a"},
		},
		{
			name:     "a scope of Body that only the upstream says is not passed on to streams",
			policies: []spec{{"a", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, scope: Body}, routes: [{name: all, match: {}}]}]}`}},
			want:     map[string]string{"timeouts.total": "1s <- a", "timeouts.scope": "absent <- a"},
		},
		{
			name:     "a scope of Body that the route says itself is",
			policies: []spec{{"a", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}, routes: [{name: all, match: {}, timeouts: {scope: Body}}]}]}`}},
			want:     map[string]string{"timeouts.total": "1s <- a", "timeouts.scope": "Body <- a"},
		},
		{
			name: "the more specific pattern of two policies wins, whatever their age",
			policies: []spec{
				{"old-exact", 2 * time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`},
				{"new-wildcard", 0, `{upstreams: [{name: all, hosts: ["*.example.com"], timeouts: {total: 9s, bodyIdle: 3s}}]}`},
			},
			want: map[string]string{"timeouts.total": "1s <- old-exact", "timeouts.bodyIdle": "3s <- new-wildcard"},
		},
		{
			name: "a wildcard for one port and a name for any port meet at that port",
			policies: []spec{
				{"name", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`},
				{"tls", 0, `{upstreams: [{name: tls, hosts: ["*.example.com:443"], timeouts: {connect: 100ms}}]}`},
			},
			port: 443,
			want: map[string]string{"timeouts.total": "1s <- name", "timeouts.connect": "100ms <- tls"},
		},
		{
			name: "routes of two policies meet where both match",
			policies: []spec{
				{"paths", time.Hour, `{upstreams: [{name: orders, hosts: [orders.example.com], routes: [{name: slow, match: {path: /slow}, timeouts: {total: 9s}}]}]}`},
				{"methods", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], routes: [{name: writes, match: {methods: [POST]}, retry: {maxAttempts: 1}}]}]}`},
			},
			client: "web",
			call:   document.Call{Method: "POST", Path: "/slow"},
			want:   map[string]string{"timeouts.total": "9s <- paths", "retry.maxAttempts": "1 <- methods"},
		},
		{
			name: "mode and onUnsupported come from the last policy that says them",
			policies: []spec{
				{"base", time.Hour, `{mode: Shadow, onUnsupported: Reject, upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`},
				{"web", 0, `{clients: [web], mode: Enforce, upstreams: [{name: orders, hosts: [orders.example.com]}]}`},
			},
			client: "web",
			want:   map[string]string{"timeouts.total": "1s <- base", "mode": "Enforce <- web", "onUnsupported": "Reject <- base"},
		},
		{
			name: "a disabled policy is as if it were not there",
			policies: []spec{
				{"off", 2 * time.Hour, `{mode: Disabled, upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s}}]}`},
				{"on", 0, `{upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 9s}}]}`},
			},
			want: map[string]string{"timeouts.total": "9s <- on"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			policies := policiesOf(t, test.policies)
			r := request{client: test.client, host: test.host, port: test.port, call: test.call}
			if r.host == "" {
				r.host = host
			}
			got := look(t, documents(t, plan.Plan(input(policies...))), r)
			if got == nil {
				t.Fatal("nothing holds")
			}
			pairs := map[string]string{}
			for path, mark := range got.provenance {
				value, ok := got.values[path]
				if !ok {
					value = "absent"
				}
				pairs[path] = value + " <- " + mark[len("shop/"):len(mark)-len("@1")]
			}
			if !reflect.DeepEqual(pairs, test.want) {
				t.Errorf("got  %v\nwant %v", pairs, test.want)
			}
		})
	}
}

func TestServicesAreExpandedToEverySpelling(t *testing.T) {
	for _, test := range []struct {
		name, service, domain string
		want                  []string
	}{
		{"of the own namespace, any port", `{name: orders}`, "", []string{"orders", "orders.shop", "orders.shop.svc", "orders.shop.svc.cluster.local"}},
		{"of the own namespace, one port", `{name: orders, port: 8080}`, "", []string{"orders.shop.svc.cluster.local:8080", "orders.shop.svc:8080", "orders.shop:8080", "orders:8080"}},
		{"of another namespace: never by the bare name", `{name: orders, namespace: sales}`, "", []string{"orders.sales", "orders.sales.svc", "orders.sales.svc.cluster.local"}},
		{"of the own namespace, named", `{name: orders, namespace: shop}`, "", []string{"orders", "orders.shop", "orders.shop.svc", "orders.shop.svc.cluster.local"}},
		{"in another cluster domain", `{name: orders}`, "k8s.corp.example", []string{"orders", "orders.shop", "orders.shop.svc", "orders.shop.svc.k8s.corp.example"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input(newPolicy(t, "a", 0, "upstreams: [{name: orders, service: "+test.service+", timeouts: {total: 1s}}]"))
			in.Options.ClusterDomain = test.domain
			doc := documentOf(t, plan.Plan(in), "")
			if got := doc.Upstreams[0].Hosts; len(doc.Upstreams) != 1 || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestLetterCaseAndTrailingDotOfACallDoNotMatter(t *testing.T) {
	out := plan.Plan(input(newPolicy(t, "a", 0, `{upstreams: [{name: orders, service: {name: orders}, timeouts: {total: 1s}}]}`)))
	for _, host := range []string{"orders", "ORDERS.shop", "Orders.Shop.Svc.", "orders.shop.svc.cluster.local."} {
		rules, _ := rulesFor(t, out, "", host, 80, "/")
		if rules.Timeouts == nil || rules.Timeouts.Total.String() != "1s" {
			t.Errorf("%s: %+v", host, rules)
		}
	}
}

func TestEachNamedClientHasADocumentAndTheOthersShareOne(t *testing.T) {
	out := plan.Plan(input(
		newPolicy(t, "wide", 0, `{upstreams: [{name: a, hosts: [a.example.com], timeouts: {total: 1s}}]}`),
		newPolicy(t, "named", 0, `{clients: [web, cart], upstreams: [{name: b, hosts: [b.example.com], timeouts: {total: 2s}}]}`),
	))
	var got []string
	for _, d := range out.Documents {
		got = append(got, d.ConfigMap)
		if d.Labels[v1alpha1.LabelManagedBy] != v1alpha1.OperatorFieldManager || d.Annotations[v1alpha1.AnnotationRevision] != d.Revision {
			t.Errorf("%s: labels %v, annotations %v", d.ConfigMap, d.Labels, d.Annotations)
		}
	}
	if want := []string{"timeouts", "timeouts-cart", "timeouts-web"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("documents %v, want %v", got, want)
	}
	if doc := documentOf(t, out, ""); len(doc.Upstreams) != 1 || len(doc.Policies) != 1 {
		t.Errorf("the document of the namespace holds %+v", doc.Policies)
	}
	if doc := documentOf(t, out, "web"); len(doc.Upstreams) != 2 || len(doc.Policies) != 2 || doc.Client != "web" {
		t.Errorf("a client's own document has to hold the wide policies too: %+v", doc.Policies)
	}
}

func TestHostsWithTheSameRulesShareAnEntry(t *testing.T) {
	doc := documentOf(t, plan.Plan(input(
		newPolicy(t, "a", time.Hour, `{upstreams: [{name: orders, hosts: [a.example.com, b.example.com, c.example.com], timeouts: {total: 1s}}]}`),
		newPolicy(t, "b", 0, `{clients: [web], upstreams: [{name: orders, hosts: [b.example.com], timeouts: {attempt: 1s}}]}`),
	)), "web")
	if len(doc.Upstreams) != 2 || !reflect.DeepEqual(doc.Upstreams[0].Hosts, []string{"a.example.com", "c.example.com"}) || !reflect.DeepEqual(doc.Upstreams[1].Hosts, []string{"b.example.com"}) {
		t.Errorf("got %+v", doc.Upstreams)
	}
}

func TestIntersectionsThatSayNothingNewAreNotWritten(t *testing.T) {
	doc := documentOf(t, plan.Plan(input(
		newPolicy(t, "a", time.Hour, `{upstreams: [{name: all, hosts: ["*.example.com:443"], timeouts: {connect: 1s}}]}`),
		newPolicy(t, "b", 0, `{upstreams: [{name: a, hosts: [a.example.com, "a.example.com:443"], timeouts: {total: 1s}}]}`),
	)), "")
	hosts := 0
	for _, u := range doc.Upstreams {
		hosts += len(u.Hosts)
	}
	if hosts != 3 {
		t.Errorf("3 hosts are listed, %d rendered: %+v", hosts, doc.Upstreams)
	}
}
