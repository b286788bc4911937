package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// key names a document's ConfigMap.
type key struct{ namespace, name string }

// documents follows all documents as a client of the API server would: by a
// watch, and by reading what arrives with the code of the clients.
type documents struct {
	mu      sync.Mutex
	seen    map[key]arrival
	waiting map[key][]waiter
	invalid error
}

// arrival is the newest version of a document: the generation of every policy
// that is in it, and when it arrived.
type arrival struct {
	generations map[string]int64
	at          time.Time
}

// waiter waits until a document has a generation of a policy; 0 until it has
// nothing of it.
type waiter struct {
	policy     string
	generation int64
	done       chan time.Time
}

func (w waiter) satisfied(a arrival) bool {
	if w.generation == 0 {
		return a.generations[w.policy] == 0
	}
	return a.generations[w.policy] >= w.generation
}

// watchDocuments follows the documents until the context ends.
func watchDocuments(ctx context.Context, config *rest.Config) (*documents, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d := &documents{seen: map[key]arrival{}, waiting: map[key][]waiter{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.OperatorFieldManager
	}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	// What was looked at is not kept.
	if err := informer.SetTransform(func(in any) (any, error) {
		if configMap, ok := in.(*corev1.ConfigMap); ok {
			d.arrived(configMap)
			configMap.Data, configMap.ManagedFields = nil, nil
		}
		return in, nil
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the documents cannot be watched")
	}
	return d, nil
}

func (d *documents) arrived(configMap *corev1.ConfigMap) {
	now := time.Now()
	data, there := configMap.Data[v1alpha1.DocumentKey]
	if !there {
		return
	}
	k := key{configMap.Namespace, configMap.Name}
	parsed, err := document.Parse([]byte(data))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.invalid = fmt.Errorf("the document %s/%s: %w", k.namespace, k.name, err)
		return
	}
	a := arrival{map[string]int64{}, now}
	for _, policy := range parsed.Policies {
		a.generations[policy.Name] = policy.Generation
	}
	d.seen[k] = a
	left := d.waiting[k][:0]
	for _, w := range d.waiting[k] {
		if w.satisfied(a) {
			w.done <- now
		} else {
			left = append(left, w)
		}
	}
	d.waiting[k] = left
}

// await tells when a document has a generation of a policy, or nothing of the
// policy when the generation is 0.
func (d *documents) await(k key, policy string, generation int64) <-chan time.Time {
	w := waiter{policy, generation, make(chan time.Time, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.seen[k]; ok && w.satisfied(a) {
		w.done <- a.at
	} else {
		d.waiting[k] = append(d.waiting[k], w)
	}
	return w.done
}

// last is when the newest of all documents arrived.
func (d *documents) last() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for _, a := range d.seen {
		if a.at.After(last) {
			last = a.at
		}
	}
	return last
}

// fault is what was wrong with a document that arrived.
func (d *documents) fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.invalid
}

// receive waits for a time that await promised.
func receive(ctx context.Context, when <-chan time.Time) (time.Time, error) {
	select {
	case at := <-when:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("a document does not arrive: %w", context.Cause(ctx))
	}
}
