package mount

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	retryAfter    = time.Second     // for a volume that could not be written, on a full disk for example
	complainAfter = 5 * time.Second // about an API server that does not answer at the start
)

// Mounter keeps the volumes of one imagined pod up to date.
type Mounter struct {
	Client    kubernetes.Interface
	Namespace string
	Dir       string // the volumes are folders below it
	Volumes   []Volume

	// Delay is how long a change waits until it is projected, to imitate the kubelet's periodic sync; what is written
	// then is the newest state, as from the kubelet. 0: at once. The first projection never waits, as a pod's does not.
	Delay time.Duration
	Log   *slog.Logger // one line per projection; nil: silent
	Clock clock.Clock  // nil: the real one

	// Mounted is called once, when every volume has been projected for the first time: the moment at which the kubelet
	// would start the containers. nil: nobody waits for it.
	Mounted func()
}

// Run projects until ctx ends. It reconnects and retries by itself, for as long as it takes, and leaves the folders as
// they are meanwhile and afterwards.
func (m Mounter) Run(ctx context.Context) {
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	if m.Clock == nil {
		m.Clock = clock.RealClock{}
	}
	var running, first sync.WaitGroup
	first.Add(len(m.Volumes))
	for _, v := range m.Volumes {
		running.Go(func() { m.keep(ctx, v, sync.OnceFunc(first.Done)) })
	}
	first.Wait()
	if m.Mounted != nil && ctx.Err() == nil {
		m.Mounted()
	}
	running.Wait()
}

// keep watches the ConfigMap of one volume and projects each change; it calls projected after the first projection,
// and at the latest when it ends.
func (m Mounter) keep(ctx context.Context, v Volume, projected func()) {
	changes := make(chan struct{}, 1)
	informer := m.informer(v, changes)
	var watching sync.WaitGroup
	watching.Go(func() { informer.RunWithContext(ctx) })
	defer watching.Wait()
	defer projected()
	if !m.answered(ctx, v, informer.HasSynced) {
		return
	}
	for {
		if err := m.project(v, informer.GetStore()); err != nil {
			m.Log.Error("not projected, will retry", "error", err)
			if !m.wait(ctx, retryAfter) {
				return
			}
			continue
		}
		projected()
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
		if !m.wait(ctx, m.Delay) {
			return
		}
	}
}

// answered waits for the first answer of the API server about the ConfigMap, "there is none" included, and says so when
// it takes long: the informer tries a server that refuses connections again and again without a word. false: ctx ended.
func (m Mounter) answered(ctx context.Context, v Volume, synced cache.InformerSynced) bool {
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, complainAfter)
		done := cache.WaitForCacheSync(patience.Done(), synced)
		cancel()
		if done {
			return true
		}
		if ctx.Err() == nil {
			m.Log.Warn("not mounted yet, will go on trying", "configMap", m.Namespace+"/"+v.ConfigMap)
		}
	}
	return false
}

// informer returns a watch on the one ConfigMap, as the kubelet keeps one, which leaves a mark in changes whenever it
// has changed.
func (m Mounter) informer(v Volume, changes chan<- struct{}) cache.SharedIndexInformer {
	informer := informers.NewFilteredConfigMapInformer(m.Client, m.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v.ConfigMap).String()
	})
	changed := func() {
		select {
		case changes <- struct{}{}:
		default: // a mark is there already
		}
	}
	// Neither call fails before the informer has started.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	// It hears of what the server refuses, such as for lack of rights; a lost connection is simply tried again.
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			m.Log.Warn("watch failed, will go on trying", "configMap", m.Namespace+"/"+v.ConfigMap, "error", err)
		}
	})
	return informer
}

// wait passes the time; false: ctx ended before.
func (m Mounter) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := m.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// project brings the volume to what the store holds.
func (m Mounter) project(v Volume, store cache.Store) error {
	name := m.Namespace + "/" + v.ConfigMap
	object, there, err := store.GetByKey(name)
	if err != nil {
		return fmt.Errorf("look up ConfigMap %s: %w", name, err)
	}
	var cm *corev1.ConfigMap
	version := "absent"
	if there {
		cm = object.(*corev1.ConfigMap)
		version = cm.ResourceVersion
	}
	dir := filepath.Join(m.Dir, v.Subdir)
	changed, err := Project(dir, cm)
	if err != nil {
		return err
	}
	if changed {
		m.Log.Info("projected", "configMap", name, "resourceVersion", version, "dir", dir)
	}
	return nil
}
