package main

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hands is how many requests this program makes at the same time.
const hands = 16

// each calls do for 0 to n-1, several at the same time, and joins the errors.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range hands {
		workers.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	if len(errs) == 0 {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// load stores namespaces and policies while the operator does not run.
func (r *runner) load(ctx context.Context) error {
	began := time.Now()
	if err := each(ctx, r.shape.namespaces, func(i int) error { return r.createNamespace(ctx, namespaceName(i)) }); err != nil {
		return err
	}
	if err := each(ctx, r.shape.policies, func(i int) error { return r.plane.Client.Create(ctx, r.shape.policy(i).object()) }); err != nil {
		return err
	}
	r.result.Add("load", "policies", float64(r.shape.policies), "")
	r.result.Add("load", "namespaces", float64(r.shape.namespaces), "")
	r.result.Add("load", "stored in", time.Since(began).Seconds(), "s")
	return nil
}

func (r *runner) createNamespace(ctx context.Context, name string) error {
	return r.plane.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
