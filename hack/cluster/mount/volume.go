package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/util"
)

// Volume is one ConfigMap and the folder, below the pod's, that it is projected into.
type Volume struct {
	ConfigMap string
	Subdir    string
}

// ParseVolumes reads CONFIGMAP=SUBDIR arguments.
func ParseVolumes(args []string) ([]Volume, error) {
	if len(args) == 0 {
		return nil, errors.New("no volume given: name at least one CONFIGMAP=SUBDIR")
	}
	var volumes []Volume
	for _, arg := range args {
		name, subdir, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no volume: write CONFIGMAP=SUBDIR", arg)
		}
		v := Volume{ConfigMap: name, Subdir: filepath.Clean(subdir)}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("%q: %q is no name of a ConfigMap: %s", arg, name, problems[0])
		}
		if subdir == "" || v.Subdir == "." || !filepath.IsLocal(v.Subdir) {
			return nil, fmt.Errorf("%q: %q is no folder below --dir", arg, subdir)
		}
		if slices.ContainsFunc(volumes, func(other Volume) bool { return nested(other.Subdir, v.Subdir) }) {
			return nil, fmt.Errorf("%q: another volume uses the folder %q, or one in or around it", arg, v.Subdir)
		}
		volumes = append(volumes, v)
	}
	return volumes, nil
}

// nested reports whether one folder is the other or lies in it.
func nested(a, b string) bool {
	a, b = a+string(filepath.Separator), b+string(filepath.Separator)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Project writes the ConfigMap's keys into the folder the way the kubelet does. A nil ConfigMap is one that does not
// exist: the volume becomes, or stays, an empty one. It reports whether the folder changed; the writer leaves a volume
// alone that is up to date. Calls for one folder must not overlap.
func Project(dir string, cm *corev1.ConfigMap) (changed bool, err error) {
	if cm == nil {
		cm = &corev1.ConfigMap{}
	}
	mode := corev1.ConfigMapVolumeSourceDefaultMode
	payload, err := configmap.MakePayload(nil, cm, &mode, nil, true)
	if err != nil {
		return false, fmt.Errorf("project ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("make the folder of a volume: %w", err)
	}
	writer, err := util.NewAtomicWriter(dir, "volume "+dir)
	if err != nil {
		return false, fmt.Errorf("open the volume %s: %w", dir, err)
	}
	before := current(dir)
	if err := writer.Write(payload, nil); err != nil {
		return false, fmt.Errorf("write the volume %s: %w", dir, err)
	}
	return before != current(dir), nil
}

// current names the folder that the volume shows, "" if it shows none yet.
func current(dir string) string {
	target, _ := os.Readlink(filepath.Join(dir, "..data")) // absent before the first projection
	return target
}
