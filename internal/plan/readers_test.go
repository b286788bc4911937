package plan_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/plan"
)

// The pods behind a status add up to its numbers.
func TestReadersAddUpToTheStatus(t *testing.T) {
	readers := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		in := input(g.policies(t)...)
		for i := range in.Policies {
			in.Policies[i].Generation = 1
		}
		out := plan.Plan(in)
		in.Existing = existing(out)
		in.Now = now.Add(time.Duration(g.IntN(400)) * time.Second)
		for i := range 12 {
			in.Reports = append(in.Reports, report(fmt.Sprintf("pod-%02d", i), pick(g, "web", "cart", "other"), g.word(out)...))
		}
		out = plan.Plan(in)
		for _, s := range out.Statuses {
			var want, got v1alpha1.ClientStatus
			for _, c := range s.Status.Clients {
				want.Reporting += c.Reporting
				want.Applied += c.Applied
				want.Rejected += c.Rejected
				want.Stale += c.Stale
			}
			gaps := 0
			for _, r := range out.Readers(s.Name) {
				readers++
				got.Reporting++
				switch r.Verdict {
				case plan.VerdictApplied:
					got.Applied++
				case plan.VerdictRejected:
					got.Rejected++
				case plan.VerdictStale:
					got.Stale++
				}
				gaps += len(r.Unsupported)
			}
			if want != got {
				t.Fatalf("seed %d, %s: the status says %+v, the readers %+v", seed, s.Name, want, got)
			}
			for _, u := range s.Status.Unsupported {
				gaps -= int(u.Clients)
			}
			if gaps != 0 && !s.Status.Truncated {
				t.Fatalf("seed %d, %s: %d gaps of readers are not in the status", seed, s.Name, gaps)
			}
		}
	}
	if readers < rounds {
		t.Fatalf("only %d readers were looked at", readers)
	}
}

// word is what a pod may say of itself.
func (g generator) word(out plan.Output) []func(*v1alpha1.ReportedClient) {
	var words []func(*v1alpha1.ReportedClient)
	if len(out.Documents) > 0 && g.chance(40) {
		words = append(words, has(pick(g, out.Documents...).Revision))
	} else if g.chance(50) {
		words = append(words, has("sha256:old"))
	}
	for i := range 5 {
		if g.chance(30) {
			words = append(words, says(fmt.Sprintf("p%d", i), pick(g, v1alpha1.PolicyApplied, v1alpha1.PolicyRejected, v1alpha1.PolicyStale)))
		}
	}
	if g.chance(50) {
		words = append(words, can("nethttp", pick(g, full, partial)))
	}
	if g.chance(20) {
		words = append(words, lacks("u0", "timeouts.total", "TimeoutTotal"))
	}
	if g.chance(20) {
		words = append(words, static)
	}
	return words
}

func TestAReaderSaysWhatItDidAndCannotDo(t *testing.T) {
	in := input(newPolicy(t, "x", 0, `{clients: [web], upstreams: [{name: orders, hosts: [orders.example.com], timeouts: {total: 1s, connect: 100ms}, retry: {maxAttempts: 2, retryableKinds: [WriteTimeout]}}]}`))
	in.Reports = []v1alpha1.ClientReport{
		report("b", "web", says("x", v1alpha1.PolicyRejected), can("fasthttp", partial), deadKind("orders", "WriteTimeout")),
		report("a", "web", has("sha256:old"), static),
		report("c", "cart"),
	}
	got := plan.Plan(in).Readers("x")
	want := []plan.Reader{
		{Pod: "a", Client: "web", ConfigMap: "timeouts-web", Verdict: plan.VerdictStale, Delivery: "Static", State: "Ready", Revision: "sha256:old", Library: "clientlib v0.1.0"},
		{Pod: "b", Client: "web", ConfigMap: "timeouts-web", Verdict: plan.VerdictRejected, Delivery: "Mount", State: "Ready", Library: "clientlib v0.1.0",
			Reason: "MissingCapability", Message: "adapter nethttp cannot honour it", Known: true,
			Unsupported: []plan.ReaderGap{{Upstream: "orders", Field: "timeouts.connect", Capability: "TimeoutConnect", Adapter: "fasthttp"}},
			DeadKinds:   []plan.ReaderDeadKind{{Upstream: "orders", Kind: "WriteTimeout", Adapter: "nethttp"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := plan.Plan(in).Readers("nobody"); got != nil {
		t.Errorf("got %+v", got)
	}
}
