package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMountOf(t *testing.T) {
	table := strings.Join([]string{
		`1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw`,
		`2 1 0:5 / /proc rw - proc proc rw`,
		`3 1 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/timeouts /etc/timeouts/client ro - ext4 /dev/sda1 rw`,
		`4 1 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/p/..2026_01_02_03_04_05.6/policy.json /etc/app/policy.json ro - ext4 /dev/sda1 rw`,
		`5 1 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/p/..2026_01_02_03_04_05.6//deleted /etc/sub ro - ext4 /dev/sda1 rw`,
		`6 1 8:1 /data /mnt/with\040space\134 rw - ext4 /dev/sda1 rw`,
		`7 1 0:6 / /mnt/twice rw - tmpfs one rw`,
		`8 1 0:7 /second /mnt/twice rw - tmpfs two rw`,
		`broken line`,
	}, "\n")
	for _, tc := range []struct {
		path, point, root string
		fixed             bool
	}{
		{"/home/me/policy.json", "/", "/", false},
		{"/etc/timeouts/client/policy.json", "/etc/timeouts/client", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/timeouts", false},
		{"/etc/timeouts/clientele/policy.json", "/", "/", false},
		{"/etc/app/policy.json", "/etc/app/policy.json", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/p/..2026_01_02_03_04_05.6/policy.json", true},
		{"/etc/app/other.json", "/", "/", false},
		{"/etc/sub/policy.json", "/etc/sub", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/p/..2026_01_02_03_04_05.6//deleted", true},
		{`/mnt/with space\/policy.json`, `/mnt/with space\`, "/data", false},
		{"/mnt/twice/policy.json", "/mnt/twice", "/second", false},
	} {
		root, point := mountOf([]byte(table), tc.path)
		if root != tc.root || point != tc.point {
			t.Errorf("mount of %s is %s showing %s, want %s showing %s", tc.path, point, root, tc.point, tc.root)
		}
		dir, key := filepath.Split(tc.path)
		fixed := isFixedMount(func() ([]byte, error) { return []byte(table), nil }, place{filepath.Clean(dir), key})
		if fixed != tc.fixed {
			t.Errorf("%s never changes: %v, want %v", tc.path, fixed, tc.fixed)
		}
	}
	if isFixedMount(func() ([]byte, error) { return nil, errors.ErrUnsupported }, place{"/etc/app", "policy.json"}) {
		t.Error("without a mount table a file counts as one that never changes")
	}
}

// Case R16.
func TestSubPathMountIsToldAsStatic(t *testing.T) {
	root := tempDir(t)
	path := filepath.Join(root, DocumentKey)
	put(t, path, docFor(t, "a"))
	table := "1 0 8:1 / / rw - ext4 d rw\n2 1 8:1 /pods/u/..2026_01_02_03_04_05.6/policy.json " + path + " ro - ext4 d rw\n"
	for name, s := range map[string]Source{"Dir": Dir(root, withMounts(table)), "File": File(path, withMounts(table))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.(*files).hub = newHub(openFake(newFakeWatcher()))
				r := start(t, s)
				advance(time.Hour)
				r.wantUpdates(1)
				r.wantClient("a")
				u := r.last()
				if u.Delivery != DeliveryStatic || u.Reason != ReasonSubPathMount || !strings.Contains(u.Message(), "subPath") {
					t.Errorf("got %s", describeUpdate(u))
				}
			})
		})
	}
}

func TestPlainDirectoryAndVolumeAreNotStatic(t *testing.T) {
	for name, write := range map[string]func(root string){
		"plain":  func(root string) { put(t, filepath.Join(root, DocumentKey), docFor(t, "a")) },
		"volume": func(root string) { newVolume(t, root).policy(docFor(t, "a")) },
		"link": func(root string) {
			put(t, filepath.Join(root, "elsewhere", "x.json"), docFor(t, "a"))
			must(t, os.Symlink("elsewhere/x.json", filepath.Join(root, DocumentKey)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			write(root)
			u := newRun(t, root).look()
			if u.Delivery != DeliveryMount || u.Reason != ReasonNone || u.Err != nil {
				t.Errorf("got %s", describeUpdate(u))
			}
		})
	}
}
