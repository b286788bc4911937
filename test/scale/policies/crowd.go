package main

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/test/scale/internal/figures"
)

// editForAll edits a policy that goes into the documents of very many clients.
func (r *runner) editForAll(ctx context.Context) error {
	const phase = "fan-out"
	n := r.fanOut.clients
	if n == 0 {
		return nil
	}
	all := []one{r.fanOut.wide()}
	for i := range n {
		all = append(all, r.fanOut.named(i))
	}
	if err := r.populate(ctx, fanOutNamespace, all); err != nil {
		return err
	}
	r.result.Add(phase, "named clients", float64(n), "")
	return r.editWide(ctx, phase, all)
}

// crowd is a namespace with very many policies for everybody, and some clients
// with a document of their own, which has all of them too.
type crowd struct{ policies, clients int }

const crowdNamespace = "scale-crowd"

func (r *runner) editInCrowd(ctx context.Context) error {
	const phase = "crowd"
	if r.crowd.policies == 0 {
		r.crowd.clients = 0
		return nil
	}
	var all []one
	for i := range r.crowd.policies {
		all = append(all, one{namespace: crowdNamespace, name: fmt.Sprintf("wide-%04d", i), host: fmt.Sprintf("wide-%04d.example.com", i), small: true})
	}
	for i := range r.crowd.clients {
		all = append(all, one{namespace: crowdNamespace, name: fmt.Sprintf("own-%04d", i), client: fmt.Sprintf("client-%04d", i), host: fmt.Sprintf("own-%04d.example.com", i), small: true})
	}
	if err := r.populate(ctx, crowdNamespace, all); err != nil {
		return err
	}
	r.result.Add(phase, "policies for everybody", float64(r.crowd.policies), "")
	r.result.Add(phase, "named clients", float64(r.crowd.clients), "")
	return r.editWide(ctx, phase, all)
}

// populate stores policies and waits until all are in force.
func (r *runner) populate(ctx context.Context, namespace string, all []one) error {
	if err := r.createNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := each(ctx, len(all), func(i int) error { return r.plane.Client.Create(ctx, all[i].object()) }); err != nil {
		return err
	}
	for {
		var list v1alpha1.TimeoutPolicyList
		if err := r.plane.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		programmed := 0
		for i := range list.Items {
			if isProgrammed(&list.Items[i]) {
				programmed++
			}
		}
		if programmed == len(all) {
			return nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return fmt.Errorf("%d of %d policies of %s are Programmed: %w", programmed, len(all), namespace, err)
		}
	}
}

// isProgrammed reports whether the present generation of a policy is in force.
func isProgrammed(policy *v1alpha1.TimeoutPolicy) bool {
	for _, c := range policy.Status.Conditions {
		if c.Type == v1alpha1.ConditionProgrammed {
			return c.Status == "True" && c.ObservedGeneration == policy.Generation
		}
	}
	return false
}

// editWide edits the first of the policies, which is for everybody, and waits
// until every document has it.
func (r *runner) editWide(ctx context.Context, phase string, all []one) error {
	keys := map[key]bool{}
	for _, p := range all {
		keys[p.document()] = true
	}
	if _, err := r.settled(ctx); err != nil {
		return err
	}
	sent, generation, err := r.edit(ctx, all[0], 7*time.Second)
	if err != nil {
		return err
	}
	var first, last time.Time
	for k := range keys {
		at, err := receive(ctx, r.documents.await(k, all[0].name, generation))
		if err != nil {
			return fmt.Errorf("document %s/%s: %w", k.namespace, k.name, err)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	r.result.Add(phase, "edit for everybody to the first document", figures.Milliseconds(first.Sub(sent)), "ms")
	r.result.Add(phase, "edit for everybody to the last document", figures.Milliseconds(last.Sub(sent)), "ms")
	documents, statuses, _, err := r.writes(ctx)
	if err != nil {
		return err
	}
	r.result.Exactly(phase, "document writes", float64(documents), float64(len(keys)))
	r.result.Count(phase, "status writes", float64(statuses), barEditStatus)
	return r.memory(phase)
}
