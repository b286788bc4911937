package build

import (
	"fmt"
	"os"
	"path/filepath"
)

// fromAssets splits the targets into those whose binary the assets folder holds and those to build. The folder that
// is built into is no override of itself.
func fromAssets(wanted []target, assets, bin string) (found map[string]string, missing []target) {
	found = map[string]string{}
	if assets == "" || sameFolder(assets, bin) {
		return found, wanted
	}
	for _, t := range wanted {
		path := filepath.Join(assets, t.name)
		if t.module != modulePath && executable(path) {
			found[t.name] = path
		} else {
			missing = append(missing, t)
		}
	}
	return found, missing
}

func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// gather returns one folder that holds all the paths: their own if they share one, else a folder of links.
func gather(paths map[string]string, links string) (string, error) {
	folders := map[string]bool{}
	var folder string
	for _, path := range paths {
		folder = filepath.Dir(path)
		folders[folder] = true
	}
	if len(folders) == 1 {
		return folder, nil
	}
	if err := os.MkdirAll(links, 0o755); err != nil {
		return "", fmt.Errorf("make the folder that joins KUBEBUILDER_ASSETS and built binaries: %w", err)
	}
	for name, path := range paths {
		temporary := filepath.Join(links, "."+name)
		_ = os.Remove(temporary) // left by a process that was killed
		if err := os.Symlink(path, temporary); err != nil {
			return "", fmt.Errorf("link %s: %w", path, err)
		}
		if err := os.Rename(temporary, filepath.Join(links, name)); err != nil {
			return "", fmt.Errorf("link %s: %w", path, err)
		}
	}
	return links, nil
}
