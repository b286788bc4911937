package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"time"
)

// Timers are never early, but a loaded machine is late.
const (
	early = 20 * time.Millisecond
	late  = 500 * time.Millisecond
)

// near says whether seconds is a limit, give or take what a machine does.
func near(s float64, limit time.Duration) bool {
	return s >= (limit-early).Seconds() && s <= (limit+late).Seconds()
}

func (d *demo) callWithoutPolicy(ctx context.Context) error {
	d.tell.step("Without a policy nothing is cut",
		"orders hangs on request. checkout gives up after 1.5 s by its own decision, since nothing else would end the call:")
	r, seen, err := d.call(ctx, "/hang?patience=1.5s")
	if err != nil {
		return err
	}
	d.tell.check(r.Limit == "caller" && len(seen) == 1 && near(r.Seconds, 1500*time.Millisecond),
		"without a policy", "one request, ended by the caller after 1.5 s", "%d request, ended by the %s after %.2f s", len(seen), r.Limit, r.Seconds)
	return nil
}

func (d *demo) applyPolicy(ctx context.Context) error {
	d.tell.step("Apply a policy: 1 s for a call, 0.4 s for an attempt, 3 attempts")
	mark, start := d.configMaps.mark(), time.Now()
	if _, err := d.kubectl.show(ctx, "apply", "-f", "config/samples/quickstart.yaml"); err != nil {
		return err
	}
	written, _, err := d.configMaps.await(ctx, mark, "the ConfigMap timeouts-checkout with the policy", documentOf(1))
	if err != nil {
		return err
	}
	if _, err := d.kubectl.show(ctx, "get", "configmap", "timeouts-checkout", "--namespace", "shop", "-o", `jsonpath={.data.policy\.json}`); err != nil {
		return err
	}
	doc := written.Object.document()
	d.tell.check(total(doc) == "1s", "the ConfigMap holds the policy", "timeouts.total 1s", "timeouts.total %s, %s", total(doc), short(doc.Revision))
	status, err := d.awaitRevision(ctx, doc.Revision)
	if err != nil {
		return err
	}
	d.tell.check(status.State == "Ready", "checkout lives on it", "state Ready with this revision", "state %s, %s", status.State, short(status.Revision))
	d.tell.measured("kubectl apply to the ConfigMap, kubectl's own start included", written.at.Sub(start))
	return nil
}

// documentOf wants the document of a generation of the policy.
func documentOf(generation int64) func(event) bool {
	return func(e event) bool {
		return e.Type != "DELETED" && e.Object.Metadata.Name == "timeouts-checkout" && e.Object.document().generation() == generation
	}
}

// total of the one upstream.
func total(doc document) string {
	if len(doc.Upstreams) == 0 {
		return "absent"
	}
	return doc.Upstreams[0].Timeouts.Total
}

func (d *demo) callUnderPolicy(ctx context.Context) error {
	d.tell.step("The same process under the policy", "orders accepts the request and never answers:")
	if err := d.hang(ctx, "a hung server", time.Second, 400*time.Millisecond); err != nil {
		return err
	}
	d.tell.say("orders sends headers at once, then 8 bytes, 0.5 s apart (4 s in all); the total covers the body:")
	r, seen, err := d.call(ctx, "/drip?n=8&every=500ms")
	if err != nil {
		return err
	}
	d.tell.check(r.Outcome == "TotalTimeout" && r.Status == 200 && r.Bytes >= 1 && r.Bytes < 8 && len(seen) == 1 && near(r.Seconds, time.Second),
		"a dripping body", "status 200, some of the 8 bytes, then TotalTimeout at 1.0 s",
		"status %d, %d of 8 bytes, then %s at %.2f s", r.Status, r.Bytes, r.Outcome, r.Seconds)
	d.tell.say("And where orders answers, nobody notices:")
	if r, seen, err = d.call(ctx, "/ok"); err != nil {
		return err
	}
	d.tell.check(r.Outcome == "success" && r.Status == 200 && len(seen) == 1, "an answer", "status 200, one request", "status %d, %d request, %s", r.Status, len(seen), r.Outcome)
	return nil
}

// tries is how often a call is made until it is as promised: what a busy
// machine adds to a limit can leave too little for the last attempt.
const tries = 3

// hang has checkout call a server that never answers, under a policy of 3
// attempts, and checks what comes of it.
func (d *demo) hang(ctx context.Context, name string, total, attempt time.Duration) error {
	for try := 1; ; try++ {
		r, seen, err := d.call(ctx, "/hang")
		if err != nil {
			return err
		}
		checks := judgeHang(name, r, seen, total, attempt)
		if passed(checks) || try == tries {
			d.tell.record(checks...)
			return nil
		}
		d.tell.say("That was not as promised; this machine may be busy. Once more:")
	}
}

// judgeHang says what a call of a server that never answers should have been.
func judgeHang(name string, r result, seen []visit, total, attempt time.Duration) []check {
	first := math.NaN()
	if len(seen) > 0 {
		first = *seen[0].Seconds
	}
	return []check{{
		Name: name + ", each attempt",
		Want: fmt.Sprintf("the first request cut at %.1f s", attempt.Seconds()),
		Seen: fmt.Sprintf("the first request was cut at %.2f s", first),
		OK:   near(first, attempt),
	}, {
		Name: name + ", retried",
		Want: "3 requests seen by orders",
		Seen: fmt.Sprintf("%d requests seen by orders", len(seen)),
		OK:   len(seen) == 3,
	}, {
		Name: name + ", in total",
		Want: fmt.Sprintf("TotalTimeout at %.1f s, the policy's limit", total.Seconds()),
		Seen: fmt.Sprintf("%s at %.2f s, the %s's limit", r.Outcome, r.Seconds, r.Limit),
		OK:   r.Outcome == "TotalTimeout" && r.Limit == "policy" && near(r.Seconds, total),
	}}
}

func (d *demo) changePolicy(ctx context.Context) error {
	d.tell.step("Change the policy while checkout runs: 0.6 s for a call, 0.2 s for an attempt")
	d.tell.say("In the background checkout goes on with calls that orders answers.")
	d.traffic = d.startTraffic(ctx)
	policies, configMaps, start := d.policies.mark(), d.configMaps.mark(), time.Now()
	if _, err := d.kubectl.show(ctx, "patch", "timeoutpolicy", "checkout", "--namespace", "shop", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/upstreams/0/timeouts","value":{"total":"600ms","attempt":"200ms"}}]`); err != nil {
		return err
	}
	stored, _, err := d.policies.await(ctx, policies, "generation 2 of the policy", func(e event) bool { return e.Object.Metadata.Generation == 2 })
	if err != nil {
		return err
	}
	written, _, err := d.configMaps.await(ctx, configMaps, "the ConfigMap with the changed policy", documentOf(2))
	if err != nil {
		return err
	}
	doc := written.Object.document()
	status, err := d.awaitRevision(ctx, doc.Revision)
	if err != nil {
		return err
	}
	d.tell.check(total(doc) == "600ms", "the ConfigMap holds the change", "timeouts.total 600ms", "timeouts.total %s, %s", total(doc), short(doc.Revision))
	d.tell.measured("the API server has the change -> the ConfigMap holds it", max(0, written.at.Sub(stored.at)))
	d.tell.measured("kubectl patch -> the ConfigMap holds it, kubectl's own start included", written.at.Sub(start))
	d.tell.measured("kubectl patch -> checkout lives on it (a real kubelet takes up to about a minute to fill the volume)", status.AppliedAt.Sub(start))
	if err := d.hang(ctx, "after the change", 600*time.Millisecond, 200*time.Millisecond); err != nil {
		return err
	}
	started := d.shop.client.cmd.Process.Pid
	d.tell.check(d.shop.answered == started, "no restart", fmt.Sprintf("an answer of process %d", started), "answered by process %d, which runs since step 4", d.shop.answered)
	return nil
}

func (d *demo) refusePolicy(ctx context.Context) error {
	d.tell.step("A policy that cannot be right is refused by the API server")
	before, err := d.status(ctx)
	if err != nil {
		return err
	}
	output, err := d.kubectl.show(ctx, "patch", "timeoutpolicy", "checkout", "--namespace", "shop", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/upstreams/0/timeouts/attempt","value":"5s"}]`)
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return err
	}
	const field = "spec.upstreams[0].timeouts.attempt"
	seen := "accepted"
	if err != nil {
		seen = "refused, and the message does not name the field"
	}
	refused := err != nil && strings.Contains(output, field)
	if refused {
		seen = "refused, naming " + field
	}
	d.tell.check(refused, "an invalid policy", "refused, naming "+field, "%s", seen)
	after, err := d.status(ctx)
	if err != nil {
		return err
	}
	d.tell.check(after.Revision == before.Revision, "checkout is not disturbed", short(before.Revision), "still %s", short(after.Revision))
	return nil
}

func (d *demo) repairDrift(ctx context.Context) error {
	d.tell.step("Somebody deletes the ConfigMap, somebody edits it")
	before, err := d.status(ctx)
	if err != nil {
		return err
	}
	lines := d.shop.client.transcript.count()
	if err := d.repair(ctx, "deleted", before.Revision, func(e event) bool { return e.Type == "DELETED" },
		"delete", "configmap", "timeouts-checkout", "--namespace", "shop"); err != nil {
		return err
	}
	if err := d.repair(ctx, "edited", before.Revision, func(e event) bool { return e.Object.Data["policy.json"] == "edited by hand" },
		"patch", "configmap", "timeouts-checkout", "--namespace", "shop", "-p", `{"data":{"policy.json":"edited by hand"}}`); err != nil {
		return err
	}
	if _, err := d.awaitRevision(ctx, before.Revision); err != nil {
		return err
	}
	if logged, _ := d.shop.client.transcript.since(lines); len(logged) > 0 {
		d.tell.say("What checkout logged meanwhile; it keeps the last good policy:")
		d.tell.output(strings.Join(logged, "\n"))
	}
	d.traffic.stop()
	d.tell.check(d.traffic.calls > 0 && d.traffic.failed == 0, "calls since the change", "none failed", "%d calls, %d failed%s", d.traffic.calls, d.traffic.failed, d.traffic.first)
	return d.hang(ctx, "after the repairs", 600*time.Millisecond, 200*time.Millisecond)
}

// repair damages the ConfigMap and waits for the operator.
func (d *demo) repair(ctx context.Context, damage, revision string, damaged func(event) bool, args ...string) error {
	mark := d.configMaps.mark()
	if _, err := d.kubectl.show(ctx, args...); err != nil {
		return err
	}
	broken, mark, err := d.configMaps.await(ctx, mark, "the ConfigMap "+damage, func(e event) bool {
		return e.Object.Metadata.Name == "timeouts-checkout" && damaged(e)
	})
	if err != nil {
		return err
	}
	repaired, _, err := d.configMaps.await(ctx, mark, "the ConfigMap repaired", func(e event) bool {
		return documentOf(2)(e) && e.Object.document().Revision == revision
	})
	if err != nil {
		return err
	}
	d.tell.check(true, "the "+damage+" ConfigMap is repaired", short(revision)+" again", "%s again", short(repaired.Object.document().Revision))
	d.tell.measured("ConfigMap "+damage+" by hand -> repaired", repaired.at.Sub(broken.at))
	return nil
}

// policyStatus is what the demo reads of a policy's status.
type policyStatus struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Summary            struct {
			Acknowledged string `json:"acknowledged"`
			Capable      string `json:"capable"`
		} `json:"summary"`
		Capabilities []struct {
			Name     string `json:"name"`
			Native   int    `json:"native"`
			Emulated int    `json:"emulated"`
			Degraded int    `json:"degraded"`
			Absent   int    `json:"absent"`
		} `json:"capabilities"`
	} `json:"status"`
}

func (d *demo) showStatus(ctx context.Context) error {
	d.tell.step("What became of it, and what checkout is able to do, is on the policy's status")
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "tmo/checkout", "--namespace", "shop", "--timeout=60s"},
		{"get", "timeoutpolicy", "--namespace", "shop", "-o", "wide"},
		{"get", "clientreports", "--namespace", "shop"},
		{"describe", "timeoutpolicy", "checkout", "--namespace", "shop"},
	} {
		if _, err := d.kubectl.show(ctx, args...); err != nil {
			return err
		}
	}
	var p policyStatus
	if err := d.kubectl.get(ctx, &p, "timeoutpolicy", "checkout", "--namespace", "shop"); err != nil {
		return err
	}
	s := p.Status
	d.tell.check(s.ObservedGeneration == 2 && s.Summary.Acknowledged == "1/1", "acknowledged", "1/1 for generation 2", "%s for generation %d", s.Summary.Acknowledged, s.ObservedGeneration)
	counted := true
	levels := make([]string, len(s.Capabilities))
	for i, c := range s.Capabilities {
		counted = counted && c.Native+c.Emulated+c.Degraded == 1 && c.Absent == 0
		levels[i] = fmt.Sprintf("%s %d/%d/%d/%d", c.Name, c.Native, c.Emulated, c.Degraded, c.Absent)
	}
	d.tell.check(s.Summary.Capable == "1/1" && counted && len(levels) > 0, "capable", "1/1, and each capability that the policy asks for in the one client",
		"%s; native/emulated/degraded/absent: %s", s.Summary.Capable, strings.Join(levels, ", "))
	return nil
}
