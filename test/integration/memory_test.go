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

// TestUnrelatedObjectsCostNoMemory: O13, O14. Other people's ConfigMaps, 200 MB
// of them, are never read, and of pods and Services only what is needed stays.
func TestUnrelatedObjectsCostNoMemory(t *testing.T) {
	const limit = 20 << 20
	c := newCluster(t)
	if err := c.install("config/default"); err != nil {
		t.Fatal(err)
	}
	namespace := c.newNamespace(t)
	p := c.startReady(t)
	policy := newPolicy(namespace, "checkout")
	c.create(t, policy)
	c.expectProgrammed(t, policy)
	p.settle(t)
	before := heap()

	large, noise := strings.Repeat("x", 500<<10), strings.Repeat("y", 10<<10)
	inParallel(400, func(i int) {
		c.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("unrelated-%d", i)}, Data: map[string]string{"data": large}})
	})
	inParallel(500, func(i int) {
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
	t.Logf("measured: the heap grew by %d KiB under 400 ConfigMaps of 500 KB, 500 pods and 500 services", grown>>10)
	if grown > limit {
		t.Errorf("the heap grew by %d MB, more than %d", grown>>20, limit>>20)
	}

	// The same after a restart, which lists everything.
	p.end(t)
	again := c.startReady(t)
	again.settle(t)
	grown = heap() - before
	t.Logf("measured: after a restart it is %d KiB more", grown>>10)
	if grown > limit {
		t.Errorf("after a restart the heap is %d MB larger, more than %d", grown>>20, limit>>20)
	}
	if err := c.client.Get(context.Background(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatal(err)
	}
}
