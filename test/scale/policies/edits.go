package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
)

// edit changes the total of a policy and tells when it was sent and which
// generation it made.
func (r *runner) edit(ctx context.Context, p one, total time.Duration) (sent time.Time, generation int64, err error) {
	policy := &v1alpha1.TimeoutPolicy{}
	policy.Namespace, policy.Name = p.namespace, p.name
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/upstreams/0/timeouts/total","value":"%dms"}]`, total.Milliseconds())
	sent = time.Now()
	err = r.plane.Client.Patch(ctx, policy, client.RawPatch(types.JSONPatchType, []byte(patch)))
	return sent, policy.Generation, err
}

// choose returns n different policies that are there.
func (r *runner) choose(n int) []int {
	var chosen []int
	for _, i := range r.random.Perm(r.shape.policies) {
		if len(chosen) == n {
			break
		}
		if !r.gone[i] {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// editOneByOne edits a policy, waits for the document, and edits the next one.
func (r *runner) editOneByOne(ctx context.Context) error {
	const phase = "edit"
	planned, err := r.plans()
	if err != nil {
		return err
	}
	profiled := r.profileCPU(ctx, "edits", 5)
	chosen := r.choose(r.edits)
	var stored, latencies []time.Duration
	for n, i := range chosen {
		p := r.shape.policy(i)
		sent, generation, err := r.edit(ctx, p, time.Duration(3000+n)*time.Millisecond)
		if err != nil {
			return err
		}
		stored = append(stored, time.Since(sent))
		at, err := receive(ctx, r.documents.await(p.document(), p.name, generation))
		if err != nil {
			return fmt.Errorf("edit of %s/%s: %w", p.namespace, p.name, err)
		}
		latencies = append(latencies, at.Sub(sent))
	}
	if err := profiled(); err != nil {
		return err
	}
	r.result.Add(phase, "edit to document, p50", figures.Milliseconds(figures.Quantile(latencies, 0.5)), "ms")
	// What the API server takes for the edit itself is in it.
	r.result.Add(phase, "edit to answer of the API server, p50", figures.Milliseconds(figures.Quantile(stored, 0.5)), "ms")
	r.result.Add(phase, "edit to answer of the API server, p99", figures.Milliseconds(figures.Quantile(stored, 0.99)), "ms")
	r.result.AtMost(phase, "edit to document, p99", figures.Milliseconds(figures.Quantile(latencies, 0.99)), barEdit, "ms")
	documents, statuses, others, err := r.writes(ctx)
	if err != nil {
		return err
	}
	edits := float64(len(chosen))
	r.result.Exactly(phase, "document writes for each edit", float64(documents)/edits, 1)
	r.result.Count(phase, "status writes for each edit", float64(statuses)/edits, barEditStatus)
	r.result.Exactly(phase, "other writes", float64(others), 0)
	after, err := r.plans()
	if err != nil {
		return err
	}
	r.result.Count(phase, "plans for each edit", (after-planned)/edits, barEditPlans)
	return r.memory(phase)
}

// editAtOnce edits very many policies as fast as the API server takes it.
func (r *runner) editAtOnce(ctx context.Context) error {
	const phase = "burst"
	profiled := r.profileCPU(ctx, "burst", 5)
	chosen := r.choose(r.burst)
	var mu sync.Mutex
	var latencies []time.Duration
	began, last := time.Now(), time.Time{}
	touched := map[key]bool{}
	if err := each(ctx, len(chosen), func(n int) error {
		p := r.shape.policy(chosen[n])
		_, generation, err := r.edit(ctx, p, time.Duration(5000+n)*time.Millisecond)
		if err != nil {
			return err
		}
		stored := time.Now()
		when := r.documents.await(p.document(), p.name, generation)
		mu.Lock()
		defer mu.Unlock()
		last = stored
		touched[p.document()] = true
		go func() {
			at, err := receive(ctx, when)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				latencies = append(latencies, max(at.Sub(stored), 0))
			}
		}()
		return nil
	}); err != nil {
		return err
	}
	if err := until(ctx, func() bool { mu.Lock(); defer mu.Unlock(); return len(latencies) == len(chosen) }); err != nil {
		return err
	}
	took := time.Since(began)
	if err := profiled(); err != nil {
		return err
	}
	r.result.Add(phase, "edits", float64(len(chosen)), "")
	r.result.Add(phase, "stored in", last.Sub(began).Seconds(), "s")
	r.result.Add(phase, "all in documents after", took.Seconds(), "s")
	r.result.Add(phase, "stored to document, p50", figures.Milliseconds(figures.Quantile(latencies, 0.5)), "ms")
	r.result.Add(phase, "stored to document, p99", figures.Milliseconds(figures.Quantile(latencies, 0.99)), "ms")
	documents, statuses, _, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.Count(phase, "document writes", float64(documents), float64(len(chosen)))
	r.result.Count(phase, "status writes", float64(statuses), barEditStatus*float64(len(chosen)))
	r.result.Add(phase, "documents concerned", float64(len(touched)), "")
	return r.memory(phase)
}

// until polls for something that happens in this process.
func until(ctx context.Context, done func() bool) error {
	for !done() {
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// deleteOneByOne deletes a policy, waits until its document is without it, and
// deletes the next one.
func (r *runner) deleteOneByOne(ctx context.Context) error {
	const phase = "delete"
	var latencies []time.Duration
	chosen := r.choose(r.deletions)
	for _, i := range chosen {
		p := r.shape.policy(i)
		r.gone[i] = true
		sent := time.Now()
		if err := r.plane.Client.Delete(ctx, p.object()); err != nil {
			return err
		}
		at, err := receive(ctx, r.documents.await(p.document(), p.name, 0))
		if err != nil {
			return fmt.Errorf("deletion of %s/%s: %w", p.namespace, p.name, err)
		}
		latencies = append(latencies, at.Sub(sent))
	}
	r.result.Add(phase, "deletion to document, p50", figures.Milliseconds(figures.Quantile(latencies, 0.5)), "ms")
	r.result.Add(phase, "deletion to document, p99", figures.Milliseconds(figures.Quantile(latencies, 0.99)), "ms")
	documents, statuses, _, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.Exactly(phase, "document writes for each deletion", float64(documents)/float64(len(chosen)), 1)
	r.result.Exactly(phase, "status writes", float64(statuses), 0)
	return nil
}
