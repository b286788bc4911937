package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Measured on linux/amd64 with Go 1.26.8 and Kubernetes 1.37.2: 4.0 GB of build cache for 2740 packages, 0.8 GB of modules.
const (
	cacheBytesPerPackage = 1_500_000
	moduleBytes          = 800_000_000
	spareBytes           = 200_000_000
)

// need is an amount of disk that a folder is going to take.
type need struct {
	what   string
	folder string
	bytes  uint64
}

// needs says what building these targets will take when that many packages are not in the build cache.
func needs(pending []target, uncached int, tc toolchain, bin string) []need {
	var binaries uint64
	for _, t := range pending {
		binaries += t.bytes
	}
	largest := slices.MaxFunc(pending, func(a, b target) int { return int(a.bytes) - int(b.bytes) })
	return []need{
		{"build cache", tc.GOCACHE, uint64(uncached) * cacheBytesPerPackage},
		{"linking", orTemp(tc.GOTMPDIR), 2 * largest.bytes},
		{"binaries", bin, binaries + largest.bytes},
	}
}

// moduleNeeds says what downloading the modules takes: nothing once Kubernetes' sources are there.
func moduleNeeds(tc toolchain, version string) []need {
	if _, err := os.Stat(filepath.Join(tc.GOMODCACHE, kubernetes+"@"+version)); err == nil {
		return nil
	}
	return []need{{"Go modules", tc.GOMODCACHE, moduleBytes}}
}

// disk is a file system: an identity, to add up the needs of folders that share it, and its free bytes.
type disk struct{ device, free uint64 }

// checkDisk returns an error that names the first file system that cannot take what its folders need.
func checkDisk(needs []need, stat func(folder string) (disk, error)) error {
	sums := map[uint64]uint64{}
	parts := map[uint64][]string{}
	for _, n := range needs {
		d, err := stat(n.folder)
		if err != nil {
			return fmt.Errorf("see how much disk is free for %s in %s: %w", n.what, n.folder, err)
		}
		sums[d.device] += n.bytes
		parts[d.device] = append(parts[d.device], fmt.Sprintf("%s in %s", n.what, n.folder))
		if wanted := sums[d.device] + spareBytes; d.free < wanted {
			return fmt.Errorf("not enough free disk: %s needed, %s free, for %s; free some space, or move GOCACHE, GOMODCACHE, GOTMPDIR or --bin to a larger disk",
				gigabytes(wanted), gigabytes(d.free), strings.Join(parts[d.device], " and "))
		}
	}
	return nil
}

// statDisk asks the file system on which the folder is, or will be once it is made.
func statDisk(folder string) (disk, error) {
	for {
		info, err := os.Stat(folder)
		if os.IsNotExist(err) && folder != filepath.Dir(folder) {
			folder = filepath.Dir(folder)
			continue
		}
		if err != nil {
			return disk{}, err
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(folder, &fs); err != nil {
			return disk{}, err
		}
		return disk{device: uint64(info.Sys().(*syscall.Stat_t).Dev), free: uint64(fs.Bavail) * uint64(fs.Bsize)}, nil
	}
}

func orTemp(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}

func gigabytes(n uint64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
