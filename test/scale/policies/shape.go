package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// shape says which policies there are. In every other namespace they hold for
// every client and share one document; in the others each names one client of
// several, and shares its document with the other policies of that client.
type shape struct {
	policies, namespaces int
}

// clientsOfNamespace is how many clients the policies of a namespace name.
const clientsOfNamespace = 4

func namespaceName(i int) string { return fmt.Sprintf("scale-%04d", i) }

// one is a policy by its number.
type one struct {
	namespace, name string
	// client that it names; empty for every client.
	client string
	// host of its upstream.
	host string
	// small policies set little, so that a thousand fit into one document.
	small bool
}

func (s shape) policy(i int) one {
	namespace, nth := i%s.namespaces, i/s.namespaces
	p := one{namespace: namespaceName(namespace), name: fmt.Sprintf("policy-%04d", nth)}
	if namespace%2 == 1 {
		p.client = fmt.Sprintf("client-%d", nth%clientsOfNamespace)
	}
	p.host = fmt.Sprintf("service-%04d.example.com", nth)
	return p
}

// document is where the policy is rendered into.
func (p one) document() key { return key{p.namespace, v1alpha1.ConfigMapName(p.client)} }

// object is a policy of the usual size, with limits, retries, a breaker and a
// route, or a small one.
func (p one) object() *v1alpha1.TimeoutPolicy {
	rules := v1alpha1.Rules{
		Timeouts: &v1alpha1.Timeouts{Total: duration("2s"), Attempt: duration("400ms"), Connect: duration("100ms")},
		Retry: &v1alpha1.Retry{
			MaxAttempts: new(int32(3)),
			Backoff:     &v1alpha1.Backoff{Initial: duration("10ms"), Max: duration("1s")},
			Budget:      &v1alpha1.Budget{Percent: new(int32(10))},
		},
		CircuitBreaker: &v1alpha1.CircuitBreaker{Failures: new(int32(5))},
	}
	policy := &v1alpha1.TimeoutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name},
		Spec: v1alpha1.TimeoutPolicySpec{Upstreams: []v1alpha1.Upstream{{
			Name:  v1alpha1.Label(p.name),
			Hosts: []v1alpha1.HostPattern{v1alpha1.HostPattern(p.host), v1alpha1.HostPattern("*." + p.host)},
			Rules: rules,
			Routes: []v1alpha1.Route{{
				Name:  "slow",
				Match: v1alpha1.Match{Methods: []v1alpha1.Token{"POST"}, Path: "/v1/reports"},
				Rules: v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: duration("10s")}},
			}},
		}}},
	}
	if p.small {
		upstream := &policy.Spec.Upstreams[0]
		upstream.Hosts, upstream.Routes = upstream.Hosts[:1], nil
		upstream.Rules = v1alpha1.Rules{Timeouts: &v1alpha1.Timeouts{Total: duration("2s"), Attempt: duration("400ms")}}
	}
	if p.client != "" {
		policy.Spec.Clients = []v1alpha1.ClientName{v1alpha1.ClientName(p.client)}
	}
	return policy
}

func duration(text string) *v1alpha1.Duration {
	d := v1alpha1.Duration(text)
	return &d
}

// fanOut is a namespace where one policy goes into the documents of all clients.
type fanOut struct{ clients int }

const fanOutNamespace = "scale-fan-out"

// wide is the policy for everybody.
func (f fanOut) wide() one {
	return one{namespace: fanOutNamespace, name: "for-everybody", host: "shared.example.com"}
}

// named is the policy of one client.
func (f fanOut) named(i int) one {
	return one{namespace: fanOutNamespace, name: fmt.Sprintf("own-%04d", i), client: fmt.Sprintf("client-%04d", i), host: fmt.Sprintf("own-%04d.example.com", i)}
}
