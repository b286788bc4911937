package mount_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/timeout-operator/timeout-operator/hack/cluster/mount"
)

func TestProjectGoesThroughTheLifeOfAnOptionalConfigMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes", "client")
	steps := []struct {
		name    string
		cm      *corev1.ConfigMap
		changed bool
		want    map[string]string
	}{
		{"absent: an empty volume", nil, true, map[string]string{}},
		{"still absent", nil, false, map[string]string{}},
		{"there", data("policy.json", "{}", "note", "first"), true, map[string]string{"policy.json": "{}", "note": "first"}},
		{"the same again", data("policy.json", "{}", "note", "first"), false, map[string]string{"policy.json": "{}", "note": "first"}},
		{"a key changed, one gone", data("policy.json", `{"schema":1}`), true, map[string]string{"policy.json": `{"schema":1}`}},
		{"bytes that are no text", &corev1.ConfigMap{BinaryData: map[string][]byte{"raw": {0, 255}}}, true, map[string]string{"raw": "\x00\xff"}},
		{"without keys", &corev1.ConfigMap{}, true, map[string]string{}},
		{"deleted", nil, false, map[string]string{}},
	}
	for _, step := range steps {
		before := readlink(t, dir)
		changed, err := mount.Project(dir, step.cm)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		after := readlink(t, dir)
		if changed != step.changed || changed != (before != after) {
			t.Errorf("%s: changed %v, want %v; ..data went from %q to %q", step.name, changed, step.changed, before, after)
		}
		if got := contents(t, dir); !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: the volume shows %q, want %q", step.name, got, step.want)
		}
		if after == "" || strings.Contains(after, "/") {
			t.Errorf("%s: ..data is %q, want a link to a folder beside it", step.name, after)
		}
	}
}

func TestProjectGivesFilesTheKubeletsMode(t *testing.T) {
	dir := t.TempDir()
	if _, err := mount.Project(dir, data("policy.json", "{}")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "policy.json"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v; want mode 0644", info, err)
	}
	if link, err := os.Readlink(filepath.Join(dir, "policy.json")); err != nil || link != "..data/policy.json" {
		t.Errorf("the key is %q, %v; want a link into ..data", link, err)
	}
}

func TestProjectNamesTheFolderThatItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mount.Project(filepath.Join(file, "client"), nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names %s", err, file)
	}
}

func TestParseVolumes(t *testing.T) {
	got, err := mount.ParseVolumes([]string{"timeouts-checkout=client", "timeouts=deep/namespace/"})
	want := []mount.Volume{{ConfigMap: "timeouts-checkout", Subdir: "client"}, {ConfigMap: "timeouts", Subdir: "deep/namespace"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	tests := []struct {
		args []string
		want string
	}{
		{nil, "name at least one CONFIGMAP=SUBDIR"},
		{[]string{"timeouts"}, `"timeouts" is no volume`},
		{[]string{"Timeouts=client"}, `"Timeouts" is no name of a ConfigMap`},
		{[]string{"=client"}, `"" is no name of a ConfigMap`},
		{[]string{"timeouts="}, `"" is no folder below --dir`},
		{[]string{"timeouts=."}, `"." is no folder below --dir`},
		{[]string{"timeouts=../up"}, `"../up" is no folder below --dir`},
		{[]string{"timeouts=/abs"}, `"/abs" is no folder below --dir`},
		{[]string{"a=client", "b=client"}, `another volume uses the folder "client"`},
		{[]string{"a=client", "b=client/in"}, "in or around it"},
		{[]string{"a=client/in", "b=client"}, "in or around it"},
	}
	for _, tt := range tests {
		if _, err := mount.ParseVolumes(tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
	if _, err := mount.ParseVolumes([]string{"a=client", "b=client-b"}); err != nil {
		t.Errorf("names that only begin alike: %v", err)
	}
}

func data(pairs ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		cm.Data[pairs[i]] = pairs[i+1]
	}
	return cm
}

// contents are the keys that a container would see.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(content)
	}
	return found
}

func readlink(t *testing.T, dir string) string {
	t.Helper()
	target, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return target
}
