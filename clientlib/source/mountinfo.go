package source

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readMounts returns the mount table of the process; it fails where the system
// has none, as outside of Linux.
func readMounts() ([]byte, error) { return os.ReadFile("/proc/self/mountinfo") }

// isFixedMount reports whether a file without "..data" beside it can never
// change: it is a mount of its own (subPath of a file), or lies in a mount of
// one version of a volume (subPath of a directory). A plain directory is
// neither. Without a mount table it is assumed to be plain.
func isFixedMount(mounts func() ([]byte, error), p place) bool {
	table, err := mounts()
	if err != nil {
		return false
	}
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return false
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	file := filepath.Join(dir, p.key)
	root, point := mountOf(table, file)
	return point == file || hasVersion(root)
}

// mountOf finds the innermost mount of a path: which part of its filesystem it
// shows, and where. See proc_pid_mountinfo(5) for the format.
func mountOf(table []byte, path string) (root, point string) {
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := unescapeMount(fields[4])
		inside := path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")
		// Of two mounts on one point the later one is seen.
		if inside && len(at) >= len(point) {
			root, point = unescapeMount(fields[3]), at
		}
	}
	return root, point
}

// unescapeMount undoes the octal escapes of space, tab, newline and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// hasVersion reports whether a path leads through a version directory of the
// kubelet's AtomicWriter, such as "..2026_01_02_03_04_05.123".
func hasVersion(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(element, "..") && len(element) > 2 {
			return true
		}
	}
	return false
}
