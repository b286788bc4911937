package integration

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heap is what lives after a collection, in bytes.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// inParallel calls f with 0 to n-1, a few at a time.
func inParallel(n int, f func(int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}

// TestUnrelatedObjectsCostNoMemory: O13, O14. Other people's ConfigMaps, 50 MB of
// them, are never read, and of pods and Services only what is needed stays: each
// of the three kinds alone would take more than the limit.
func TestUnrelatedObjectsCostNoMemory(t *testing.T) {
	const limit = 5 << 20
	c := shared
	namespace := c.newNamespace(t)
	t.Cleanup(func() { c.empty(t, namespace, &corev1.ConfigMap{}, &corev1.Pod{}, &corev1.Service{}) })
	p := c.startReady(t)
	policy := newPolicy(namespace, "checkout")
	c.create(t, policy)
	c.expectProgrammed(t, policy)
	p.settle(t)
	before := heap()

	large, noise := strings.Repeat("x", 500<<10), strings.Repeat("y", 40<<10)
	inParallel(100, func(i int) {
		c.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("unrelated-%d", i)}, Data: map[string]string{"data": large}})
	})
	inParallel(150, func(i int) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", i), Annotations: map[string]string{"noise": noise}}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app", Env: []corev1.EnvVar{{Name: "NOISE", Value: noise}}}}
		c.create(t, pod)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("service-%d", i), Annotations: map[string]string{"noise": noise}}}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		service.Spec.ClusterIP = corev1.ClusterIPNone
		c.create(t, service)
	})
	p.settle(t)
	grown := heap() - before
	t.Logf("measured: the heap grew by %d KiB under 100 ConfigMaps of 500 KB, 150 pods and 150 services", grown>>10)
	if grown > limit {
		t.Errorf("the heap grew by %d KiB, more than %d", grown>>10, limit>>10)
	}

	// The same after a restart, which lists everything.
	p.end(t)
	again := c.startReady(t)
	again.settle(t)
	grown = heap() - before
	t.Logf("measured: after a restart it is %d KiB more", grown>>10)
	if grown > limit {
		t.Errorf("after a restart the heap is %d KiB larger, more than %d", grown>>10, limit>>10)
	}
	if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatal(err)
	}
}
