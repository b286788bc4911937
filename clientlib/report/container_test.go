package report

import (
	"errors"
	"strings"
	"testing"
)

func TestTheContainerIsReadFromItsMounts(t *testing.T) {
	const root = `589 566 0:145 / / rw,relatime master:212 - overlay overlay rw,lowerdir=/var/lib/containerd/1/fs` + "\n"
	file := func(path, at string) string {
		return "600 589 259:1 " + path + " " + at + " rw,relatime - ext4 /dev/root rw\n"
	}
	last := func(container string) string {
		return file("/var/lib/kubelet/pods/2f1c6a0e-6a53-4f0c-9a38-0d1d8f0c9a11/containers/"+container+"/1a2b3c4d", "/dev/termination-log")
	}
	for _, test := range []struct{ name, table, want string }{
		{"nothing", "", ""},
		{"no Kubernetes", root, ""},
		{"a container", root + file("/var/lib/kubelet/pods/u/etc-hosts", "/etc/hosts") + last("checkout"), "checkout"},
		{"the kubelet's folder is a filesystem of its own", root + file("/pods/u/containers/envoy-1/77", "/dev/termination-log"), "envoy-1"},
		{"twice the same", last("app") + last("app"), "app"},
		{"an agent that has the folders of many", last("app") + last("other"), ""},
		{"a volume of that name", file("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/containers", "/x"), ""},
		{"a name that no container can have", last("Not_A_Name"), ""},
		{"lines that are cut", "600 589\n\nx", ""},
	} {
		if got := containerOf(func() ([]byte, error) { return []byte(test.table), nil }); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got := containerOf(func() ([]byte, error) { return nil, errors.New("no such file") }); got != "" {
		t.Errorf("without a table: %q", got)
	}
}

func TestEachContainerHasAFieldManagerOfItsOwn(t *testing.T) {
	if got := manager(""); got != FieldManager {
		t.Errorf("of nobody known: %q", got)
	}
	if got := manager("app"); got != "timeout-clientlib/app" {
		t.Errorf("of app: %q", got)
	}
	// The API server takes 128 characters.
	if got := manager(strings.Repeat("x", 500)); len(got) > 128 {
		t.Errorf("%d characters", len(got))
	}
}
