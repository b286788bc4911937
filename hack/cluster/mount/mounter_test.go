package mount_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/timeout-operator/timeout-operator/hack/cluster/controlplane"
	"github.com/timeout-operator/timeout-operator/hack/cluster/internal/clustertest"
	"github.com/timeout-operator/timeout-operator/hack/cluster/mount"
)

func TestMounterFollowsItsConfigMaps(t *testing.T) {
	clustertest.NoLeaks(t)
	cp, client := startAPI(t)
	api := client.CoreV1().ConfigMaps("default")

	t.Run("from absent to deleted, and nobody else's", func(t *testing.T) {
		m := run(t, mount.Mounter{Client: client, Volumes: volumes("follow=client", "follow-all=namespace")})
		m.shows("client", map[string]string{})
		m.shows("namespace", map[string]string{})

		create(t, api, "follow", "policy.json", "1")
		create(t, api, "follow-other", "policy.json", "not ours")
		m.shows("client", map[string]string{"policy.json": "1"})
		update(t, api, "follow", "policy.json", "2")
		m.shows("client", map[string]string{"policy.json": "2"})
		remove(t, api, "follow")
		m.shows("client", map[string]string{})
		m.shows("namespace", map[string]string{})
		m.stop()
		if got := m.log.count("projected"); got != 5 {
			t.Errorf("%d projections logged, want 5 (two empty ones, create, update, delete):\n%s", got, m.log)
		}
	})

	t.Run("what is there before is there when it says mounted", func(t *testing.T) {
		create(t, api, "before", "policy.json", "1")
		m := run(t, mount.Mounter{Client: client, Volumes: volumes("before=client")})
		if got := contents(t, filepath.Join(m.dir, "client")); got["policy.json"] != "1" {
			t.Errorf("mounted with %q", got)
		}
		m.stop()
		if got := contents(t, filepath.Join(m.dir, "client")); got["policy.json"] != "1" {
			t.Errorf("after its end the volume holds %q, want what it held", got)
		}
	})

	t.Run("with a delay, the newest state at its end", func(t *testing.T) {
		fake := clocktesting.NewFakeClock(time.Now())
		m := run(t, mount.Mounter{Client: client, Volumes: volumes("delayed=client"), Delay: time.Minute, Clock: fake})
		create(t, api, "delayed", "policy.json", "1")
		clustertest.Eventually(t, 10*time.Second, "it waits", func() error {
			if !fake.HasWaiters() {
				return fmt.Errorf("nobody waits")
			}
			return nil
		})
		update(t, api, "delayed", "policy.json", "2")
		if got := contents(t, filepath.Join(m.dir, "client")); len(got) > 0 {
			t.Errorf("projected before the delay is over: %q", got)
		}
		clustertest.Eventually(t, 10*time.Second, "the newest state", func() error {
			fake.Step(time.Minute) // again, should the update have come after the first
			return m.differs("client", map[string]string{"policy.json": "2"})
		})
		m.stop()
	})

	t.Run("a volume that cannot be written is tried again", func(t *testing.T) {
		blocked := filepath.Join(t.TempDir(), "volumes")
		if err := os.WriteFile(blocked, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		m := start(t, mount.Mounter{Client: client, Volumes: volumes("retried=client"), Dir: blocked})
		clustertest.Eventually(t, 10*time.Second, "it complains", func() error {
			if m.log.count("not projected, will retry") == 0 {
				return fmt.Errorf("log %s", m.log)
			}
			return nil
		})
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		<-m.mounted
		m.shows("client", map[string]string{})
		m.stop()
	})

	t.Run("through a crash of the API server", func(t *testing.T) {
		m := run(t, mount.Mounter{Client: client, Volumes: volumes("crash=client")})
		create(t, api, "crash", "policy.json", "1")
		m.shows("client", map[string]string{"policy.json": "1"})
		cp.Kill(controlplane.APIServer)
		if err := cp.Start(t.Context(), controlplane.APIServer); err != nil {
			t.Fatal(err)
		}
		update(t, api, "crash", "policy.json", "2")
		m.shows("client", map[string]string{"policy.json": "2"})
		m.stop()
	})
}

// started is a Mounter that runs.
type started struct {
	t       *testing.T
	dir     string
	log     *lines
	mounted chan struct{}
	stop    func()
}

// run starts the Mounter and waits until it says mounted.
func run(t *testing.T, m mount.Mounter) *started {
	t.Helper()
	s := start(t, m)
	select {
	case <-s.mounted:
	case <-time.After(30 * time.Second):
		t.Fatalf("not mounted after 30 s; log %s", s.log)
	}
	return s
}

func start(t *testing.T, m mount.Mounter) *started {
	t.Helper()
	s := &started{t: t, log: &lines{}, mounted: make(chan struct{})}
	if m.Dir == "" {
		m.Dir = t.TempDir()
	}
	s.dir = m.Dir
	m.Namespace = "default"
	m.Log = slog.New(slog.NewTextHandler(s.log, nil))
	m.Mounted = func() { close(s.mounted) }
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

func (s *started) shows(volume string, want map[string]string) {
	s.t.Helper()
	// The reflector's back-off reaches 30 s.
	clustertest.Eventually(s.t, 60*time.Second, "the volume "+volume, func() error { return s.differs(volume, want) })
}

func (s *started) differs(volume string, want map[string]string) error {
	if got := contents(s.t, filepath.Join(s.dir, volume)); fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("shows %q, want %q", got, want)
	}
	return nil
}

func startAPI(t *testing.T) (*controlplane.ControlPlane, *kubernetes.Clientset) {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Bin: clustertest.Binaries(t), WithoutControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return cp, client
}

func volumes(args ...string) []mount.Volume {
	parsed, err := mount.ParseVolumes(args)
	if err != nil {
		panic(err)
	}
	return parsed
}

func create(t *testing.T, api typedcorev1.ConfigMapInterface, name, key, value string) {
	t.Helper()
	cm := data(key, value)
	cm.Name = name
	if _, err := api.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, api typedcorev1.ConfigMapInterface, name, key, value string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}}
	if _, err := api.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, api typedcorev1.ConfigMapInterface, name string) {
	t.Helper()
	if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// lines is a log that may be read while it is written to.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }
