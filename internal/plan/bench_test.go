package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// manyPolicies makes policies that each have an upstream of their own; every
// nth names a client, the others none. n of 0 means that none does.
func manyPolicies(t testing.TB, count, n, clients int) []v1alpha1.TimeoutPolicy {
	t.Helper()
	policies := make([]v1alpha1.TimeoutPolicy, 0, count)
	for i := range count {
		names := ""
		if n > 0 && i%n == 0 {
			names = fmt.Sprintf("clients: [c%d]\n", i/n%clients)
		}
		policies = append(policies, newPolicy(t, fmt.Sprintf("p%04d", i), time.Duration(i+1)*time.Minute, names+fmt.Sprintf(`
upstreams:
- name: u%04d
  hosts: [u%04d.example.com]
  timeouts: {total: 2s, attempt: 400ms}
  retry: {maxAttempts: 3}
`, i, i)))
	}
	return policies
}

func benchmarkPlan(b *testing.B, in plan.Input) {
	b.Helper()
	out := plan.Plan(in)
	bytes := 0
	for _, d := range out.Documents {
		bytes += len(d.Data)
	}
	b.ReportAllocs()
	for b.Loop() {
		plan.Plan(in)
	}
	b.ReportMetric(float64(len(out.Documents)), "documents")
	b.ReportMetric(float64(bytes), "bytes")
}

// One namespace, 1,000 policies, one document.
func BenchmarkThousandPoliciesWithoutClients(b *testing.B) {
	benchmarkPlan(b, input(manyPolicies(b, 1000, 0, 0)...))
}

// One namespace, 1,000 policies, each for a client of its own.
func BenchmarkThousandPoliciesOfThousandClients(b *testing.B) {
	benchmarkPlan(b, input(manyPolicies(b, 1000, 1, 1000)...))
}

// One of 500 namespaces with 20 policies each: ten policies for everybody, ten
// that name clients, 200 clients in all.
func BenchmarkTwoHundredClientsUnderTenPolicies(b *testing.B) {
	policies := manyPolicies(b, 10, 0, 0)
	for i := range 10 {
		p := newPolicy(b, fmt.Sprintf("named%d", i), time.Minute, fmt.Sprintf(`
upstreams:
- name: named%d
  hosts: [named%d.example.com]
  timeouts: {total: 1s}
`, i, i))
		for j := range 20 {
			p.Spec.Clients = append(p.Spec.Clients, v1alpha1.ClientName(fmt.Sprintf("c%d", i*20+j)))
		}
		policies = append(policies, p)
	}
	benchmarkPlan(b, input(policies...))
}

// 10,000 pods of one client, the document just changed.
func BenchmarkTenThousandReports(b *testing.B) {
	in := input(manyPolicies(b, 20, 0, 0)...)
	for i := range 10000 {
		in.Reports = append(in.Reports, report(fmt.Sprintf("pod-%d", i), "web", has("sha256:old"), says("p0001", v1alpha1.PolicyApplied),
			can("nethttp", map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{"TimeoutTotal": v1alpha1.LevelNative, "RetryOwned": v1alpha1.LevelAbsent})))
	}
	benchmarkPlan(b, in)
}
