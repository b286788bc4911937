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
	benchmarkPlan(b, twoHundredClients(b))
}

func twoHundredClients(b *testing.B) plan.Input {
	b.Helper()
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
	return input(policies...)
}

func tenThousandReports() []v1alpha1.ClientReport {
	var reports []v1alpha1.ClientReport
	for i := range 10000 {
		reports = append(reports, report(fmt.Sprintf("pod-%d", i), "web", has("sha256:old"), says("p0001", v1alpha1.PolicyApplied),
			can("nethttp", map[v1alpha1.ReportedWord]v1alpha1.CapabilityLevel{"TimeoutTotal": v1alpha1.LevelNative, "RetryOwned": v1alpha1.LevelAbsent})))
	}
	return reports
}

// 10,000 pods of one client, the document just changed; read one by one, as
// kubectl timeouts does.
func BenchmarkTenThousandReports(b *testing.B) {
	in := input(manyPolicies(b, 20, 0, 0)...)
	in.Reports = tenThousandReports()
	benchmarkPlan(b, in)
}

// The same as the operator has it, counted before.
func BenchmarkTenThousandReportsInACensus(b *testing.B) {
	in := input(manyPolicies(b, 20, 0, 0)...)
	var census plan.Census
	for _, r := range tenThousandReports() {
		census.Set(r.Name, r.CreationTimestamp.Time, statements(&r))
	}
	in.Voices = census.Voices(in.Now, in.Options)
	benchmarkPlan(b, in)
}

// One of 10,000 pods changes its mind, and the numbers are asked for.
func BenchmarkOneReportOfTenThousand(b *testing.B) {
	var census plan.Census
	reports := tenThousandReports()
	for i := range reports {
		census.Set(reports[i].Name, reports[i].CreationTimestamp.Time, statements(&reports[i]))
	}
	other := report("pod-5000", "web", has("sha256:new"))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := &reports[5000]
		if i%2 == 0 {
			r = &other
		}
		census.Set(r.Name, r.CreationTimestamp.Time, statements(r))
		census.Voices(now, plan.Options{})
	}
}

// One namespace with 1,000 policies for everybody and ten clients of their own,
// whose documents have all of them too; one edit goes into all eleven.
func BenchmarkCrowdWithTenClients(b *testing.B) {
	policies := manyPolicies(b, 1000, 0, 0)
	for i := range 10 {
		policies = append(policies, newPolicy(b, fmt.Sprintf("own%d", i), time.Minute, fmt.Sprintf(`
clients: [c%d]
upstreams:
- name: own
  hosts: [own%d.example.com]
  timeouts: {total: 1s}
`, i, i)))
	}
	benchmarkPlan(b, input(policies...))
}
